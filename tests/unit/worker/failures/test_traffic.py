"""Which failures speak against a model."""

import pytest

from worker.failures.traffic import speaks_against

COUNTS = {
    "overloaded": True,
    "network_timeout": True,
    "upstream_error": True,
    "rate_limited": False,
    "invalid_key": False,
    "context_overflow": False,
    "connection_refused": False,
}


@pytest.mark.parametrize(("cause", "counts"), COUNTS.items(), ids=COUNTS)
def test_only_failures_of_the_model_count(cause, counts):
    assert speaks_against(cause) is counts
