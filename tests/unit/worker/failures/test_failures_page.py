"""docs/failures.md says what the tables say."""

import re
from pathlib import Path

from shared.causes import CAUSES
from worker.failures.decide import plan_of

PAGE = Path(__file__).parents[4] / "docs" / "failures.md"
ROW = re.compile(
    r"^\| (\w+) \| (\w+) \| (\w+) \| (yes)? ?\| (yes)? ?\| ([\w ,]+) \|$", re.MULTILINE
)


def test_the_page_has_the_row_of_every_cause():
    rows = ROW.findall(PAGE.read_text(encoding="utf-8"))
    assert rows == [
        (
            cause.value,
            facts.category.value,
            facts.family.value,
            "yes" if facts.is_retryable else "",
            "yes" if facts.needs_operator else "",
            ", then ".join(action.value.replace("_", " ") for action in plan_of(cause))
            or "give up",
        )
        for cause, facts in CAUSES.items()
    ]
