"""A server with the accounts of a fleet, and an address for each role."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import redis

from ops.acl import Role, acl_file, digest_of
from shared.keys import Keys
from shared.secrets import Secret
from tests.support.servers import RedisServer, running_server

PASSWORD = "of-the-test"
ADMIN = f"user admin on >{PASSWORD} ~* &* +@all\n"
"""For the test alone: it looks at everything."""


class Guarded(NamedTuple):
    """A server with accounts."""

    server: RedisServer

    def url(self, role: Role | str) -> str:
        return f"redis://{role}:{PASSWORD}@127.0.0.1:{self.server.port}/0"

    def client(self, role: Role | str) -> "redis.Redis":
        return redis.Redis.from_url(self.url(role))

    def refused(self) -> list[str]:
        """What the server refused since the last look: `role: why object`."""
        with self.client("admin") as admin:
            rows = admin.acl_log()
            admin.acl_log_reset()
        return [
            f"{_text(row['username'])}: {_text(row['reason'])} {_text(row['object'])}"
            for row in rows
        ]


@contextmanager
def guarded_server(flavor: str, directory: Path, keys: Keys | None = None) -> Iterator[Guarded]:
    """A server that lets each role in with the same password."""
    file = directory / "users.acl"
    digests = {role: [digest_of(Secret(PASSWORD))] for role in Role}
    file.write_text(acl_file(keys or Keys(), digests) + ADMIN, encoding="ascii")
    with running_server(flavor, aclfile=str(file)) as server:
        guarded = Guarded(server)
        guarded.refused()  # whoever waited for the start came without a name
        yield guarded


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value
