"""docs/limits.md is what the constants say."""

from tests.support.limits_page import PAGE, page


def test_the_page_of_limits_is_what_the_source_says():
    fresh = "write it anew: python -m tests.support.limits_page"
    assert PAGE.read_text(encoding="utf-8") == page(), fresh
