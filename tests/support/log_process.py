"""A process that logs into a stdout that nobody reads, and says on stderr how its loop did.

`python -m tests.support.log_process LINES`; it prints the longest wait of its loop in milliseconds.
"""

import asyncio
import logging
import sys

from shared.config import Settings
from shared.logs import fields, start_logs

log = logging.getLogger("turnfleet.test")


async def work(lines: int) -> float:
    """Logs and sleeps in turns; the longest that a sleep of no length took."""
    loop = asyncio.get_running_loop()
    longest_s = 0.0
    for number in range(lines):
        log.info("line", extra=fields(number=number, text="x" * 200))
        if number % 50 == 0:
            began_s = loop.time()
            await asyncio.sleep(0)
            longest_s = max(longest_s, loop.time() - began_s)
    return longest_s


def main() -> None:
    """Runs it."""
    logs = start_logs("test", Settings())
    longest_s = asyncio.run(work(int(sys.argv[1])))
    sys.stderr.write(f"{longest_s * 1000:.0f} {logs.dropped}\n")
    sys.stderr.flush()
    logs.close()


if __name__ == "__main__":
    main()
