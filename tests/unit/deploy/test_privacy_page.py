"""The page of what is kept names every key and every table, and the times that the code has."""

import re
from pathlib import Path

import pytest

from ops.acl import patterns_of
from ops.store.retention import RULES
from ops.store.tables import SCHEMA
from shared import lifetimes
from shared.edges.forgetting import REMOVAL_DELAY_MS
from shared.keys import Keys

PAGE = (Path(__file__).parents[3] / "docs" / "privacy.md").read_text(encoding="utf-8")
REDIS, _, REST = PAGE.partition("## In the database")
ROWS = dict(re.findall(r"^\| `(\w+)` \| [^|]+ \| ([^|]+) \|$", REDIS, re.MULTILINE))
TABLES = dict(
    re.findall(r"^\| `(\w+)` \| [^|]+ \| ([^|]+) \|$", REST.split("## Else")[0], re.MULTILINE)
)
HOUR_MS = 3_600_000


def test_every_key_is_on_the_page():
    assert set(ROWS) == set(patterns_of(Keys()))


def test_every_table_is_on_the_page():
    assert set(TABLES) == set(SCHEMA.tables)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: str(rule.table.name))
def test_a_row_lives_as_long_as_the_page_says(rule):
    assert TABLES[rule.table.name].startswith(f"{rule.keep.days} days")


@pytest.mark.parametrize(
    ("name", "text", "ttl_ms"),
    [
        ("turn", "72 h", lifetimes.FAILED_TTL_MS),
        ("turn", "48 h", lifetimes.TURN_TTL_MS),
        ("recording", "72 h", lifetimes.FAILED_TTL_MS),
        ("fault", "72 h", lifetimes.FAULT_TTL_MS),
        ("mark", "24 h", lifetimes.MARK_TTL_MS),
        ("journal", "2 h", lifetimes.JOURNAL_TTL_MS),
        ("history", "24 h", lifetimes.HISTORY_TTL_MS),
        ("details", "72 h", lifetimes.DETAILS_TTL_MS),
        ("continuation", "24 h", lifetimes.CONTINUATION_TTL_MS),
        ("table_source", "72 h", lifetimes.SOURCE_TTL_MS),
        ("spend", "960 h", lifetimes.SPEND_TTL_MS),
        ("forgotten", "720 h", lifetimes.FORGOTTEN_TTL_MS),
        ("local_messages", "24 h", lifetimes.LOCAL_TTL_MS),
    ],
)
def test_a_key_lives_as_long_as_the_page_says(name: str, text: str, ttl_ms: int):
    hours = int(text.removesuffix(" h"))
    assert ttl_ms == hours * HOUR_MS
    shown = f"{hours // 24} days" if hours > 240 else text
    assert shown in ROWS[name]


def test_a_guild_is_forgotten_when_the_page_says():
    assert REMOVAL_DELAY_MS == 30 * 24 * HOUR_MS
    assert "after 30 days" in PAGE
