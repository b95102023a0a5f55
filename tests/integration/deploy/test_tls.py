"""Redis over TLS: a real server, a CA of one's own, and what is refused."""

import contextlib
import datetime
import ipaddress
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from shared.edges.redis import check_server, connect
from shared.errors import ConfigError, StoreUnavailable
from tests.support.processes import wait_until
from tests.support.servers import BINARIES, RedisServer, free_port

Key = ec.EllipticCurvePrivateKey
NOW = datetime.datetime.now(datetime.UTC)


def certificate(
    name: str, key: Key, issuer: str, signer: Key, *, addresses: tuple[str, ...] = ()
) -> x509.Certificate:
    is_ca = not addresses
    names = [x509.IPAddress(ipaddress.ip_address(one)) for one in addresses]
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOW - datetime.timedelta(hours=1))
        .not_valid_after(NOW + datetime.timedelta(hours=1))
        .add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), critical=True)
    )
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(signer, hashes.SHA256())


def write(directory: Path, name: str, key: Key, cert: x509.Certificate) -> None:
    pem = serialization.Encoding.PEM
    (directory / f"{name}.crt").write_bytes(cert.public_bytes(pem))
    plain = serialization.NoEncryption()
    (directory / f"{name}.key").write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain)
    )


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A CA, a certificate for this address, one for another, and a CA that signed neither."""
    path = tmp_path_factory.mktemp("tls")
    keys = {name: ec.generate_private_key(ec.SECP256R1()) for name in ("ca", "here", "other", "no")}
    write(path, "ca", keys["ca"], certificate("ca", keys["ca"], "ca", keys["ca"]))
    write(path, "no", keys["no"], certificate("no", keys["no"], "no", keys["no"]))
    for name, address in (("here", "127.0.0.1"), ("other", "192.0.2.7")):
        signed = certificate(name, keys[name], "ca", keys["ca"], addresses=(address,))
        write(path, name, keys[name], signed)
    return path


class TlsServer(RedisServer):
    """A server that speaks TLS on one port, and plainly on the other."""

    def __init__(self, binary: str, home: Path, files: Path, name: str) -> None:
        self.tls_port = free_port()
        options = {
            "tls-port": str(self.tls_port),
            "tls-cert-file": str(files / f"{name}.crt"),
            "tls-key-file": str(files / f"{name}.key"),
            "tls-auth-clients": "no",
        }
        super().__init__(binary, home, **options)


@pytest.fixture(scope="module")
def server(directory: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsServer]:
    yield from tls_server("here", directory, tmp_path_factory.mktemp("server"))


@pytest.fixture(scope="module")
def misnamed(directory: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsServer]:
    yield from tls_server("other", directory, tmp_path_factory.mktemp("server"))


def tls_server(name: str, files: Path, home: Path) -> Iterator[TlsServer]:
    binary = BINARIES["redis"]
    if binary is None:
        pytest.skip("no redis-server with TLS on this machine")
    server = TlsServer(binary, home, files, name)
    server.start()
    yield server
    server.kill()


async def facts_through(url: str) -> str:
    client = connect(url)
    try:
        return (await check_server(client, url)).flavor
    finally:
        await client.aclose()


async def test_a_server_of_the_given_ca_is_talked_to(server: TlsServer, directory: Path):
    url = f"rediss://127.0.0.1:{server.tls_port}/0?ssl_ca_certs={directory / 'ca.crt'}"
    assert await facts_through(url) == "redis"
    client = connect(url)
    assert await client.set("k", "v")
    await client.aclose()


@pytest.mark.parametrize(
    ("query", "why"),
    [
        pytest.param("", "certificate verify failed", id="nobody vouches"),
        pytest.param("?ssl_ca_certs={directory}/no.crt", "certificate verify failed", id="other"),
    ],
)
async def test_a_server_that_nobody_vouches_for_is_refused(
    server: TlsServer, directory: Path, query: str, why: str
):
    url = f"rediss://127.0.0.1:{server.tls_port}/0{query.format(directory=directory)}"
    with pytest.raises(StoreUnavailable, match=why):
        await facts_through(url)


async def test_a_certificate_for_another_address_is_refused(misnamed: TlsServer, directory: Path):
    url = f"rediss://127.0.0.1:{misnamed.tls_port}/0?ssl_ca_certs={directory / 'ca.crt'}"
    with pytest.raises(StoreUnavailable, match=r"127\.0\.0\.1"):
        await facts_through(url)


async def test_a_server_without_tls_is_refused(server: TlsServer):
    with pytest.raises(StoreUnavailable):
        await facts_through(f"rediss://127.0.0.1:{server.port}/0")


@pytest.mark.parametrize("scheme", ["redis+sentinel", "sentinel", "rediss+sentinel"])
def test_sentinel_is_refused_with_what_to_do(scheme: str):
    with pytest.raises(ConfigError, match="follows the primary"):
        connect(f"{scheme}://host:26379/main")


async def test_a_sentinel_in_the_place_of_a_server_is_told_apart(tmp_path: Path):
    binary = BINARIES["redis"]
    if binary is None:
        pytest.skip("no redis-server on this machine")
    config = tmp_path / "sentinel.conf"
    port = free_port()
    config.write_text(f"port {port}\nbind 127.0.0.1\nlogfile {tmp_path}/log\n", encoding="ascii")
    process = subprocess.Popen([binary, str(config), "--sentinel"])
    try:
        wait_until(lambda: answers(port))
        with pytest.raises(ConfigError, match="is a Sentinel"):
            await facts_through(f"redis://127.0.0.1:{port}/0")
    finally:
        process.kill()
        process.wait()


def answers(port: int) -> bool:
    with contextlib.suppress(redis.ConnectionError), redis.Redis(port=port) as client:
        return bool(client.ping())
    return False
