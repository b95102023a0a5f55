"""Decisions about endpoints: which URLs, which addresses, and what the operator may allow."""

import pytest

from shared.errors import ConfigError
from worker.edges.guard import Guard, Refusal, guard_of, is_public

PUBLIC = [
    "1.1.1.1", "8.8.8.8", "100.63.255.255", "100.128.0.1", "172.15.0.1", "172.32.0.1",
    "192.169.0.1", "198.17.0.1", "223.255.255.255", "2606:4700::1111", "2001:4860:4860::8888",
    "2a00:1450::1", "::ffff:8.8.8.8",
]  # fmt: skip
INSIDE = {
    "loopback": "127.0.0.1",
    "loopback, far end": "127.255.255.254",
    "this network": "0.0.0.0",
    "private 10": "10.1.2.3",
    "private 172": "172.31.255.255",
    "private 192": "192.168.1.1",
    "carrier-grade NAT": "100.64.0.1",
    "metadata in it": "100.100.100.200",
    "link-local metadata": "169.254.169.254",
    "platform agent": "168.63.129.16",
    "protocol assignments": "192.0.0.8",
    "metadata in them": "192.0.0.192",
    "6to4 relay": "192.88.99.1",
    "benchmark": "198.19.0.1",
    "documentation": "203.0.113.5",
    "multicast": "224.0.0.1",
    "reserved": "250.1.1.1",
    "broadcast": "255.255.255.255",
    "loopback 6": "::1",
    "unspecified 6": "::",
    "compatible": "::127.0.0.1",
    "mapped": "::ffff:127.0.0.1",
    "mapped in hex": "::ffff:7f00:1",
    "mapped metadata": "::ffff:169.254.169.254",
    "translated": "::ffff:0:127.0.0.1",
    "NAT64": "64:ff9b::7f00:1",
    "local NAT64": "64:ff9b:1::1",
    "6to4": "2002:7f00:1::",
    "Teredo": "2001:0:53aa:64c::1",
    "documentation 6": "2001:db8::1",
    "documentation 6, new": "3fff::1",
    "unique local": "fd00:ec2::254",
    "link-local": "fe80::1",
    "with a zone": "fe80::1%lo",
    "public with a zone": "2606:4700::1111%lo",
    "site-local": "fec0::1",
    "multicast 6": "ff02::1",
    "segment routing": "5f00::1",
    "no address": "localhost",
    "nothing": "",
}


@pytest.mark.parametrize("address", PUBLIC)
def test_an_address_of_the_internet_is_public(address):
    assert is_public(address)


@pytest.mark.parametrize("address", INSIDE.values(), ids=INSIDE)
def test_an_address_inside_is_not_public(address):
    assert not is_public(address)


@pytest.mark.parametrize(
    ("scheme", "host", "port", "refusal"),
    [
        ("https", "api.example", None, None),
        ("https", "api.example", 8443, None),
        ("https", "api.example", 22, Refusal.PORT),
        ("https", "api.example", 99999, Refusal.PORT),
        ("http", "api.example", None, Refusal.NOT_HTTPS),
        ("http", "api.example", 443, Refusal.NOT_HTTPS),
        ("ftp", "api.example", None, Refusal.PORT),
        ("ftp", "api.example", 443, Refusal.NOT_HTTPS),
        ("https", "", None, Refusal.HOST),
        ("https", "a." * 128, None, Refusal.HOST),
        ("http", "kobold.lan", 5001, None),
        ("http", "KOBOLD.lan.", 5001, None),
        ("http", "kobold.lan", 5002, Refusal.NOT_HTTPS),
        ("http", "[::1]", 80, None),
        ("http", "::1", None, None),
    ],
)
def test_a_url_is_judged_by_its_parts(scheme, host, port, refusal):
    guard = guard_of("kobold.lan:5001, [::1]:80", {})
    assert guard.refusal_of_url(scheme, host, port, has_user_info=False) is refusal
    assert guard.refusal_of_url(scheme, host, port, has_user_info=True) is Refusal.USER_INFO


def test_one_address_inside_refuses_the_name():
    guard = Guard()
    assert guard.refusal_of_addresses("host", 443, ["1.1.1.1", "8.8.8.8"]) is None
    mixed = guard.refusal_of_addresses("host", 443, ["1.1.1.1", "10.0.0.1"])
    assert mixed is Refusal.PRIVATE_ADDRESS


def test_what_the_operator_named_may_lie_anywhere():
    guard = guard_of("", {"mine": "http://ollama:11434/v1", "other": "https://Bücher.example/v1"})
    assert guard.allowed == {("ollama", 11434), ("xn--bcher-kva.example", 443)}
    assert guard.refusal_of_addresses("ollama", 11434, ["10.0.0.1"]) is None
    assert guard.refusal_of_addresses("ollama", 6379, ["10.0.0.1"]) is Refusal.PRIVATE_ADDRESS


@pytest.mark.parametrize("text", ["localhost", "host:many", "host:99999", ":80", "bücher..x:80"])
def test_an_allowance_that_cannot_be_read_names_its_setting(text):
    with pytest.raises(ConfigError, match="TURNFLEET_PRIVATE_ENDPOINTS"):
        guard_of(text, {})
    with pytest.raises(ConfigError, match="TURNFLEET_ENDPOINTS"):
        guard_of("", {"mine": f"scheme://{text}"})
