"""The failure suite: houses that are shared by scenarios, and the table of results."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.support.servers import flavors
from tests.support.staging import SEED, Row, Stages

TABLE = Path(__file__).parents[3] / "build" / "faults" / "results.md"
"""Where the table is written, beside the terminal."""
ROWS = pytest.StashKey[list[Row]]()


@pytest.fixture(scope="session", params=flavors())
def flavor(request: pytest.FixtureRequest) -> str:
    """The servers, one after the other: of the whole session first one, then the other."""
    name: str = request.param
    return name


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def stages(request: pytest.FixtureRequest) -> AsyncIterator[Stages]:
    """Houses for all scenarios."""
    opened = Stages()
    request.config.stash[ROWS] = opened.rows
    yield opened
    await opened.close()


def table_of(rows: list[Row]) -> list[str]:
    """The results as a table in Markdown."""
    lines = [
        f"Seed {SEED}. Repeat a run with `TURNFLEET_TEST_SEED={SEED} make faults`.",
        "",
        "| fault | scenario | server | promises kept | recovery s | seconds | |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        recovery = "" if row.recovery_s is None else f"{row.recovery_s:.1f}"
        good = "ok" if row.is_good else "**broken**"
        lines.append(
            f"| {row.ids} | {row.about} | {row.flavor} | {row.promises} | {recovery} "
            f"| {row.seconds:.1f} | {good} |"
        )
    return lines


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Shows the table, and writes it to the build directory."""
    rows = config.stash.get(ROWS, [])
    if not rows:
        return
    lines = table_of(rows)
    terminalreporter.section("failure suite")
    for line in lines:
        terminalreporter.write_line(line)
    TABLE.parent.mkdir(parents=True, exist_ok=True)
    TABLE.write_text("\n".join(lines) + "\n", encoding="utf-8")
