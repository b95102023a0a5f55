"""Prefixes of arguments against `parse_partial_json`."""

import pytest

from tests.support import corpus
from worker.normalize.partial_json import parse_partial_json


@pytest.mark.parametrize("case", corpus.cases("partial_json_cases.json"))
def test_preview_is_the_object_seen_so_far(case: corpus.Case):
    assert parse_partial_json(case["input"]) == case["expected"]
