"""Which endpoints may be reached: decisions about addresses, as values.

Comes in: the parts of a URL, the addresses that a name resolved to, and what the operator allows.
Goes out: a `Refusal`, or none. It opens nothing; `worker.edges.http` asks about the URL,
`worker.edges.network` about the addresses at the moment of connecting.

Addresses are judged, never strings: the resolver reads `2130706433`, `0x7f.1` and circled digits
as 127.0.0.1, and a name may resolve to another address each time.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Final
from urllib.parse import urlsplit

import msgspec

from shared.errors import ConfigError

MAX_HOST_CHARS: Final = 253
"""The longest name in the DNS (RFC 1035, 3.1)."""
PUBLIC_PORTS: Final = frozenset({443, 8443})
"""Where HTTPS listens. Any other port of a public host is the operator's to allow."""
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}

_NOT_PUBLIC_4: Final = tuple(
    ip_network(text)
    for text in (
        "0.0.0.0/8",  # this network
        "10.0.0.0/8",  # private (RFC 1918)
        "100.64.0.0/10",  # carrier-grade NAT (RFC 6598), and a cloud's metadata (100.100.100.200)
        "127.0.0.0/8",  # loopback
        "168.63.129.16/32",  # looks public, is the host agent of a cloud's virtual machines
        "169.254.0.0/16",  # link-local (RFC 3927), and the metadata of most clouds
        "172.16.0.0/12",  # private
        "192.0.0.0/24",  # protocol assignments (RFC 6890), and a cloud's metadata
        "192.0.2.0/24",  # documentation (RFC 5737)
        "192.88.99.0/24",  # relays of 6to4 (RFC 7526)
        "192.168.0.0/16",  # private
        "198.18.0.0/15",  # benchmarks (RFC 2544)
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, and broadcast
    )
)
_PUBLIC_6: Final = ip_network("2000::/3")
"""All that IANA gives out as global unicast (RFC 4291). Outside of it lie loopback, `::/96`, NAT64
(`64:ff9b::/96`, `64:ff9b:1::/48`), unique local, link-local, site-local and multicast: what will be
invented there is refused as well."""
_NOT_PUBLIC_6: Final = tuple(
    ip_network(text)
    for text in (
        "2001::/23",  # protocol assignments: Teredo (RFC 4380), ORCHID, benchmarks
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4: holds any IPv4 address (RFC 3056)
        "3ffe::/16",  # the former 6bone
        "3fff::/20",  # documentation (RFC 9637)
    )
)


class Refusal(StrEnum):
    """Why an endpoint may not be reached."""

    USER_INFO = "user_info"
    NOT_HTTPS = "not_https"
    HOST = "host"
    PORT = "port"
    PRIVATE_ADDRESS = "private_address"


class Guard(msgspec.Struct, frozen=True, kw_only=True):
    """What may be reached.

    Args:
        allowed: hosts and ports that the operator named: they may be private, and without TLS.
    """

    allowed: frozenset[tuple[str, int]] = frozenset()

    def allows(self, host: str, port: int) -> bool:
        """Whether the operator named this host with this port."""
        return (_plain(host), port) in self.allowed

    def refusal_of_url(
        self, scheme: str, host: str, port: int | None, *, has_user_info: bool
    ) -> Refusal | None:
        """Why a URL is refused before anything is resolved.

        Args:
            scheme: lower case.
            host: in its ASCII form.
            port: None is the scheme's own.
            has_user_info: a name or password stands before the host.
        """
        if has_user_info:
            return Refusal.USER_INFO
        if not 0 < len(_plain(host)) <= MAX_HOST_CHARS:
            return Refusal.HOST
        number = _DEFAULT_PORTS.get(scheme) if port is None else port
        if number is None or not 0 < number <= 65535:
            return Refusal.PORT
        if self.allows(host, number):
            return None
        if scheme != "https":
            return Refusal.NOT_HTTPS
        return None if number in PUBLIC_PORTS else Refusal.PORT

    def refusal_of_addresses(
        self, host: str, port: int, addresses: Iterable[str]
    ) -> Refusal | None:
        """Why a connection is refused: any address of a name that is not public refuses the name.

        Args:
            host: as it was resolved.
            port: that is connected to.
            addresses: all that the name resolved to.
        """
        if self.allows(host, port) or all(is_public(address) for address in addresses):
            return None
        return Refusal.PRIVATE_ADDRESS


def guard_of(
    private_endpoints: str, endpoints: Mapping[str, str], *, variable: str = "TURNFLEET_ENDPOINTS"
) -> Guard:
    """The guard of a deployment.

    An endpoint that the operator set by hand (`TURNFLEET_ENDPOINTS`) is allowed by its host and
    port: whoever can set it can allow it, and a local model is the usual case.

    Args:
        private_endpoints: `host:port`, with commas between.
        endpoints: the operator's base URLs by provider.
        variable: where `endpoints` were set.

    Raises:
        ConfigError: one cannot be read.
    """
    entries = [entry.strip() for entry in private_endpoints.split(",") if entry.strip()]
    named = {_host_and_port("TURNFLEET_PRIVATE_ENDPOINTS", f"//{entry}") for entry in entries}
    named |= {_host_and_port(variable, url) for url in endpoints.values()}
    return Guard(allowed=frozenset(named))


def is_public(address: str) -> bool:
    """Whether an address is one of the public internet; one that cannot be read is not."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return False
    if isinstance(parsed, IPv6Address):
        mapped = parsed.ipv4_mapped
        return _is_public_6(parsed) if mapped is None else _is_public_4(mapped)
    return _is_public_4(parsed)


def _is_public_4(address: IPv4Address) -> bool:
    return not any(address in network for network in _NOT_PUBLIC_4)


def _is_public_6(address: IPv6Address) -> bool:
    if address.scope_id is not None:  # a zone (`fe80::1%eth0`) names one of our own interfaces
        return False
    return address in _PUBLIC_6 and not any(address in network for network in _NOT_PUBLIC_6)


def _plain(host: str) -> str:
    """One spelling of a host: no brackets, no root dot, lower case."""
    return host.strip("[]").removesuffix(".").lower()


def _host_and_port(variable: str, url: str) -> tuple[str, int]:
    try:
        parts = urlsplit(url)
        port = parts.port or _DEFAULT_PORTS.get(parts.scheme)
        host = parts.hostname
    except ValueError:
        host = port = None
    if not host or port is None:
        form = "host:port, such as localhost:5001" if url.startswith("//") else "https://host/path"
        raise ConfigError(f"{variable} holds an address that cannot be read; the form is {form}")
    try:
        ascii_host = host.encode("idna").decode() if not host.isascii() else host
    except UnicodeError:
        raise ConfigError(f"{variable} holds a host name that cannot be encoded") from None
    return _plain(ascii_host), port
