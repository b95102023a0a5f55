"""Where the console listens."""

import contextlib
import socket
from collections.abc import Iterator

import pytest

from ops.cli.console import HOST, listen
from shared.errors import ConfigError


@pytest.fixture(params=[True, False], ids=["listening", "bound"])
def taken(request: pytest.FixtureRequest) -> Iterator[int]:
    """A port that another console has, or is about to have."""
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind((HOST, 0))
        if request.param:
            other.listen()
        yield other.getsockname()[1]


def test_a_free_port_is_listened_on_at_once():
    with listen(HOST, 0) as listener, socket.create_connection(listener.getsockname()):
        pass


def test_a_port_that_is_taken_is_said():
    with listen(HOST, 0) as first, pytest.raises(ConfigError, match="--port 0"):
        listen(HOST, first.getsockname()[1])


def test_another_one_may_be_taken_where_the_wished_one_is(capsys: pytest.CaptureFixture[str]):
    with listen(HOST, 0) as first:
        port = first.getsockname()[1]
        with listen(HOST, port, or_free=True) as second:
            assert second.getsockname()[1] != port
    assert f"{port} is taken" in capsys.readouterr().err


def test_of_two_at_once_one_has_the_port(taken: int):
    with contextlib.ExitStack() as stack:
        first, second = (stack.enter_context(listen(HOST, taken, or_free=True)) for _ in range(2))
        assert first.getsockname() != second.getsockname()
