"""The guard over real sockets: what must not be reached is not even connected to."""

import asyncio
import contextlib
import ssl
import subprocess
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
import uvloop

from shared.errors import EndpointError
from worker.edges.guard import Guard, guard_of
from worker.edges.http import HttpEdge
from worker.edges.network import resolve
from worker.providers.requests import HttpRequest

ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


class Listener:
    """A server on loopback that counts who comes, and keeps what they said first."""

    def __init__(self) -> None:
        self.heads: list[bytes] = []
        self.count = 0
        self.port = 0
        self.visits: set[asyncio.Task[None] | None] = set()

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.count += 1
        self.visits.add(asyncio.current_task())
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            self.heads.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(ANSWER)
            await writer.drain()
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


@contextlib.asynccontextmanager
async def listening(context: ssl.SSLContext | None = None) -> AsyncIterator[Listener]:
    listener = Listener()
    server = await asyncio.start_server(listener, "127.0.0.1", 0, ssl=context)
    listener.port = server.sockets[0].getsockname()[1]
    try:
        yield listener
    finally:
        server.close()
        for visit in listener.visits:
            if visit is not None:
                await visit


def names(*answers: Sequence[str]):
    """A resolver that gives these answers in order, the last one for ever."""
    left = list(answers)

    async def resolver(_host: str, _port: int) -> Sequence[str]:
        return left.pop(0) if len(left) > 1 else left[0]

    return resolver


async def ask(edge: HttpEdge, url: str) -> str:
    """The name of the error, or the status."""
    headers = (("authorization", "Bearer k"),)
    try:
        async with edge.open(HttpRequest("POST", url, headers, b"{}")) as response:
            return str(response.status)
    except EndpointError as exc:
        return exc.exception
    finally:
        await edge.close()


NUMERIC = ["127.0.0.1", "2130706433", "0x7f.1", "0177.0.0.1", "127.1", "0", "localhost", "①②⑦.1",
           "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]",
           "169.254.169.254", "[fe80::1]", "LOCALHOST.", "127.0.0.1."]  # fmt: skip


@pytest.mark.parametrize("host", NUMERIC)
async def test_every_spelling_of_a_place_inside_is_refused(host):
    # Some spellings are no URL to httpx, some no name to the resolver; none gets further.
    refused = {"EndpointNotAllowed", "ConnectError", "InvalidURL"}
    async with listening() as listener:
        assert await ask(HttpEdge(), f"https://{host}/v1") in refused
        assert await ask(HttpEdge(), f"http://{host}:{listener.port}/v1") in refused
        assert listener.count == 0


INSIDE = [["127.0.0.1"], ["10.0.0.5"], ["1.1.1.1", "127.0.0.1"], ["::ffff:127.0.0.1"],
          ["64:ff9b::7f00:1"], ["2002:7f00:1::"], ["2001:0:53aa:64c::1"], ["fd00::1"],
          ["169.254.169.254"], ["100.64.0.1"], ["224.0.0.1"], ["0.0.0.0"]]  # fmt: skip


@pytest.mark.parametrize("addresses", INSIDE, ids=",".join)
async def test_a_name_that_points_inside_is_refused_at_connect(addresses):
    edge = HttpEdge(resolver=names(addresses))
    assert await ask(edge, "https://api.example/v1") == "EndpointNotAllowed"


async def test_a_name_that_changes_its_mind_gains_nothing():
    """It is resolved once for a connection, and the connection goes to what was checked."""
    asked = []

    async def rebinding(host, _port):
        asked.append(host)
        return ["127.0.0.1"] if len(asked) > 1 else ["192.0.2.1", "1.1.1.1"][1:]

    async with listening() as listener:
        edge = HttpEdge(Guard(), rebinding)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.2):  # the public address answers or not, as it likes
                await ask(edge, "https://api.example:8443/v1")
        assert asked == ["api.example"]
        assert await ask(HttpEdge(Guard(), rebinding), "https://api.example/") == (
            "EndpointNotAllowed"
        )
        assert listener.count == 0


@pytest.mark.parametrize(
    "url",
    ["http://api.example/", "https://api.example:22/", "https://me@api.example/",
     "https://me:pw@api.example/", "ftp://api.example/", "https://api.example:99999/"],
)  # fmt: skip
async def test_a_url_against_the_policy_is_refused_before_it_is_resolved(url):
    asked = []

    async def resolver(host, _port):
        asked.append(host)
        return ["1.1.1.1"]

    assert await ask(HttpEdge(resolver=resolver), url) in {"EndpointNotAllowed", "InvalidURL"}
    assert asked == []


async def test_user_info_is_refused_even_where_the_operator_allows_the_host():
    async with listening() as listener:
        edge = HttpEdge(guard_of(f"127.0.0.1:{listener.port}", {}))
        url = f"http://me:pw@127.0.0.1:{listener.port}/"
        assert await ask(edge, url) == "EndpointNotAllowed"
        assert listener.count == 0


async def test_an_allowed_private_endpoint_works_under_its_own_name():
    async with listening() as listener:
        guard = guard_of(f"kobold.lan:{listener.port}", {})
        edge = HttpEdge(guard, names(["127.0.0.1"]))
        assert await ask(edge, f"http://kobold.lan:{listener.port}/v1") == "200"
        assert f"Host: kobold.lan:{listener.port}".encode() in listener.heads[0]
        assert b"accept-encoding: identity" in listener.heads[0]


async def test_an_allowance_is_for_one_port_of_one_name():
    async with listening() as listener:
        guard = guard_of("kobold.lan:1, other.lan:443", {})
        for url in (f"http://kobold.lan:{listener.port}/", "https://kobold.lan/"):
            edge = HttpEdge(guard, names(["127.0.0.1"]))
            assert await ask(edge, url) == "EndpointNotAllowed"
        assert listener.count == 0


async def test_proxies_and_passwords_of_the_environment_are_ignored(monkeypatch, tmp_path):
    async with listening() as proxy, listening() as listener:
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        netrc = tmp_path / "netrc"
        netrc.write_text("machine 127.0.0.1 login me password pw\n")
        monkeypatch.setenv("NETRC", str(netrc))
        edge = HttpEdge(guard_of(f"127.0.0.1:{listener.port}", {}))
        assert await ask(edge, f"http://127.0.0.1:{listener.port}/") == "200"
        assert b"Bearer k" in listener.heads[0]
        inside = HttpEdge(resolver=names(["127.0.0.1"]))
        assert await ask(inside, "https://api.example/") == "EndpointNotAllowed"
        assert proxy.count == 0


async def test_the_next_address_is_tried_when_one_does_not_answer():
    async with listening() as listener:
        guard = guard_of(f"two.lan:{listener.port}", {})
        edge = HttpEdge(guard, names(["127.0.0.2", "127.0.0.1"]))
        assert await ask(edge, f"http://two.lan:{listener.port}/") == "200"


@pytest.mark.parametrize("answer", [OSError("no such name"), UnicodeError("label too long"), []])
async def test_a_name_that_does_not_resolve_is_a_connect_error(answer):
    async def resolver(_host, _port):
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert await ask(HttpEdge(resolver=resolver), "https://api.example/") == "ConnectError"


async def test_a_resolver_that_never_answers_is_a_timeout():
    async def resolver(_host, _port):
        await asyncio.Event().wait()
        return []

    edge = HttpEdge(resolver=resolver, connect_timeout_s=0.05)
    assert await ask(edge, "https://api.example/") == "ConnectTimeout"


async def test_the_resolver_gives_each_address_once():
    assert await resolve("127.0.0.1", 443) == ["127.0.0.1"]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate of `api.lan`, its key in the same file."""
    path = tmp_path_factory.mktemp("tls") / "both.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
               "-nodes", "-days", "2", "-subj", "/CN=api.lan", "-addext",
               "subjectAltName=DNS:api.lan", "-keyout", f"{path}.key",
               "-out", str(path)]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True)
    path.write_text(path.read_text() + Path(f"{path}.key").read_text())
    return path


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
@pytest.mark.parametrize(
    ("name", "outcome"), [("api.lan", "200"), ("other.lan", "ConnectError")], ids=["own", "other"]
)
def test_tls_is_checked_against_the_name_not_the_address(certificate, run, name, outcome):
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    asked = []
    context.sni_callback = lambda _socket, sni, _context: asked.append(sni)
    trusting = ssl.create_default_context(cafile=str(certificate))

    async def scene() -> str:
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)  # the server's side
        async with listening(context) as listener:
            guard = guard_of(f"{name}:{listener.port}", {})
            edge = HttpEdge(guard, names(["127.0.0.1"]), tls=trusting)
            return await ask(edge, f"https://{name}:{listener.port}/")

    assert run(scene()) == outcome
    assert asked == [name]


async def test_a_peer_that_never_answers_the_handshake_is_a_timeout():
    async with listening() as listener:  # which waits for a line that TLS never says
        edge = HttpEdge(guard_of(f"127.0.0.1:{listener.port}", {}), connect_timeout_s=0.1)
        assert await ask(edge, f"https://127.0.0.1:{listener.port}/") == "ConnectTimeout"
