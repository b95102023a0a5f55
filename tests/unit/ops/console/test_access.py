"""Where a console may listen, and with what."""

import pytest

from ops.cli.console import access_of, is_loopback
from ops.console.access import MIN_TOKEN_CHARS, Access
from shared.config import Settings
from shared.errors import ConfigError

TOKEN = "t" * MIN_TOKEN_CHARS


@pytest.mark.parametrize(
    ("host", "is_local"),
    [
        ("127.0.0.1", True),
        ("127.8.9.1", True),
        ("localhost", True),
        ("::1", True),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.4", False),
        ("localhost.evil.example", False),
    ],
)
def test_only_loopback_is_open_without_a_token(host: str, is_local: bool):
    assert is_loopback(host) is is_local
    if is_local:
        assert host in access_of(Settings(), host).hosts
        return
    with pytest.raises(ConfigError, match="TURNFLEET_CONSOLE_TOKEN"):
        access_of(Settings(), host)
    assert access_of(Settings(console_token=TOKEN), host).token == TOKEN


def test_a_short_token_is_refused_without_being_shown():
    with pytest.raises(ConfigError) as caught:
        access_of(Settings(console_token="guessable"), "127.0.0.1")
    assert "guessable" not in str(caught.value)


def test_marks_belong_to_a_purpose_a_session_and_a_process():
    access = Access(token=TOKEN)
    mark = access.sign("form", "session")
    assert mark == access.sign("form", "session")
    assert mark not in {access.sign("known", "session"), access.sign("form", "other")}
    assert mark != Access(token=TOKEN).sign("form", "session")
    assert access.is_token(TOKEN)
    assert not Access().is_token("")
