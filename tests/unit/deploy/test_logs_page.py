"""The page of the logs says what is so: settings, limits, and lines that the code writes."""

import re
from pathlib import Path

import pytest

from shared.config import Settings
from shared.log_lines import STACK_CHARS
from shared.logs import CLOSE_S, QUEUE_LINES

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "logs.md").read_text(encoding="utf-8")
CODE = "".join(
    path.read_text(encoding="utf-8")
    for package in ("shared", "worker", "gateway", "ops")
    for path in (ROOT / package).rglob("*.py")
)


@pytest.mark.parametrize(
    "field",
    [name for name in Settings.__struct_fields__ if name.startswith(("log_", "sentry_dsn"))],
)
def test_every_setting_of_the_logs_is_on_the_page(field: str):
    assert f"`TURNFLEET_{field.upper()}`" in PAGE


def test_the_numbers_are_those_of_the_code():
    assert f"{QUEUE_LINES:,} lines wait" in PAGE
    assert f"{STACK_CHARS:,} characters" in PAGE
    assert 2 * CLOSE_S == 10


@pytest.mark.parametrize("line", re.findall(r"`([a-z_]+\.[a-z_]+)`", PAGE.split("## Lines")[1]))
def test_a_line_of_the_page_is_written_somewhere(line: str):
    assert f'"{line}"' in CODE
