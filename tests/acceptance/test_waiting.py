"""Who waits is told so, by real processes, and is told no more once the answer is there."""

import asyncio
import os
import signal
import tempfile
from pathlib import Path

import pytest

from shared.edges.embedded import running_url
from shared.edges.local_channel import LocalChannel
from shared.edges.redis import connect
from shared.keys import Keys
from tests.support.processes import Turnfleet, wait_until

pytestmark = pytest.mark.faults
CHANNEL = 77


def shown(home: Path) -> list[str]:
    """What the channel shows beside the prompt."""

    async def look() -> list[str]:
        url = running_url(home)
        assert url is not None
        redis = connect(url)
        try:
            messages = await LocalChannel(redis, Keys()).messages(CHANNEL)
            return [message.text for message in messages if message.text != "hello"]
        finally:
            await redis.aclose(close_connection_pool=True)

    return asyncio.run(look())


@pytest.mark.parametrize("is_killed", [False, True], ids=["", "gateway killed"])
def test_who_waits_for_ten_seconds_is_told_for_what(is_killed: bool):
    with tempfile.TemporaryDirectory(prefix="tf-wait-") as name:
        home = Path(name)
        turnfleet = Turnfleet(home)
        with turnfleet.running("up", "--workers", "1", ready="turnfleet is up") as up:
            assert turnfleet.run("fleet", "pause").exit_code == 0
            sent = turnfleet.run("turns", "send", "--no-wait", "--channel", "77", "hello")
            assert sent.exit_code == 0, sent.output
            wait_until(lambda: shown(home) != [], 20.0)
            assert shown(home) == ["Answers are paused at the moment. Your question waits."]
            if is_killed:
                pid = up.pid_of("gateway")
                os.kill(pid, signal.SIGKILL)
                wait_until(lambda: up.pid_of("gateway") != pid)
            assert turnfleet.run("fleet", "resume").exit_code == 0
            wait_until(lambda: any("plain answer" in text for text in shown(home)))
            wait_until(lambda: not any("paused" in text for text in shown(home)), 20.0)
