"""`turnfleet redis acl`: the files it writes, and what a second run keeps."""

from pathlib import Path
from urllib.parse import urlsplit

import pytest

from ops.acl import Role, digest_of, digests_in
from ops.cli.exits import Exit
from shared.edges.credentials import load_opening_keys
from shared.secrets import Secret
from tests.support.processes import Turnfleet


@pytest.fixture
def home(tmp_path: Path) -> Turnfleet:
    return Turnfleet(tmp_path / "data")


def write(home: Turnfleet, directory: Path, *more: str) -> None:
    done = home.run("redis", "acl", str(directory), *more)
    assert done.exit_code == Exit.OK, done.output


def url(directory: Path, role: Role) -> str:
    return (directory / role / "TURNFLEET_REDIS_URL").read_text(encoding="ascii").strip()


def digest(address: str) -> str:
    password = urlsplit(address).password
    assert password is not None
    return digest_of(Secret(password))


def test_each_role_gets_an_address_and_the_server_its_digest(home: Turnfleet, tmp_path: Path):
    directory = tmp_path / "secrets"
    write(home, directory, "--url", "rediss://redis:6380/0?ssl_ca_certs=/run/ca.pem")
    users = (directory / "redis/users.acl").read_text(encoding="ascii")
    addresses = {role: url(directory, role) for role in Role}
    assert len(set(addresses.values())) == len(Role)
    for role, address in addresses.items():
        parts = urlsplit(address)
        assert (parts.username, parts.hostname, parts.port) == (role, "redis", 6380)
        assert parts.query == "ssl_ca_certs=/run/ca.pem"
        assert digests_in(users, role) == [digest(address)]
        assert str(parts.password) not in users
    assert directory.stat().st_mode & 0o077 == 0


def test_a_second_run_keeps_the_passwords(home: Turnfleet, tmp_path: Path):
    write(home, tmp_path / "s")
    before = (tmp_path / "s" / "redis/users.acl").read_bytes()
    write(home, tmp_path / "s")
    assert (tmp_path / "s" / "redis/users.acl").read_bytes() == before


def test_a_new_password_leaves_the_old_one_good_until_the_next_run(home: Turnfleet, tmp_path: Path):
    directory = tmp_path / "s"
    write(home, directory)
    old = digest(url(directory, Role.WORKER))
    write(home, directory, "--rotate", "worker")
    new = digest(url(directory, Role.WORKER))
    users = directory / "redis/users.acl"
    assert new != old
    assert digests_in(users.read_text(encoding="ascii"), Role.WORKER) == [new, old]
    assert len(digests_in(users.read_text(encoding="ascii"), Role.GATEWAY)) == 1
    write(home, directory)
    assert digests_in(users.read_text(encoding="ascii"), Role.WORKER) == [new]


@pytest.mark.parametrize(
    "address",
    [
        pytest.param("redis://me:pw@host", id="an account of its own"),
        pytest.param("http://host", id="no Redis"),
    ],
)
def test_an_address_that_cannot_be_used_is_refused(home: Turnfleet, tmp_path: Path, address: str):
    done = home.run("redis", "acl", str(tmp_path / "s"), "--url", address)
    assert done.exit_code == Exit.BAD_INPUT
    assert "pw" not in done.output


def test_secrets_are_made_once_and_each_kind_of_process_gets_its_own(
    home: Turnfleet, tmp_path: Path
):
    directory = tmp_path / "s"
    assert home.run("secrets", str(directory)).exit_code == Exit.OK
    files = {
        str(path.relative_to(directory)): path for path in directory.rglob("*") if path.is_file()
    }
    first = {name: path.read_bytes() for name, path in files.items()}
    assert home.run("secrets", str(directory)).exit_code == Exit.OK
    assert {name: path.read_bytes() for name, path in files.items()} == first
    holders = {name for name in files if name.endswith("opening.keys")}
    assert holders == {"worker/opening.keys"}
    assert "gateway/TURNFLEET_DISCORD_TOKEN" in files
    assert not [name for name in files if name.startswith("worker/TURNFLEET_DISCORD")]
    assert not [
        name for name in files if name.startswith(("gateway/", "worker/")) and "DATABASE" in name
    ]
    assert all(path.stat().st_mode & 0o007 == 0 for path in files.values())
    public = load_opening_keys(files["worker/opening.keys"])[0].public_key
    assert bytes(public).hex().encode() in first["gateway/TURNFLEET_SEALING_KEY"]


def test_the_cell_of_the_settings_is_the_cell_of_the_rules(tmp_path: Path):
    write(Turnfleet(tmp_path / "data", cell="two"), tmp_path / "s")
    assert "~tf:{two}:ring" in (tmp_path / "s" / "redis/users.acl").read_text(encoding="ascii")
