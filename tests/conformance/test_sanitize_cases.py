"""The corpus of histories: each case as it stands, twice, and with its input untouched."""

import copy
import re
from typing import Any

import msgspec
import pytest

from shared.messages import Message
from tests.support import corpus
from worker.normalize.history import sanitize_messages_for_target

_HASHED = re.compile(r"_[0-9a-f]{8}$")


def sanitized(case: corpus.Case, messages: list[Any]) -> Any:
    history = msgspec.convert(messages, list[Message])
    result = sanitize_messages_for_target(
        history, case["provider"], case["model"], **case["options"]
    )
    return msgspec.to_builtins(result)


def comparable(value: Any) -> Any:
    """Hashes of renamed ids are each implementation's own; their shape is compared."""
    if isinstance(value, dict):
        return {
            key: _shape_of_id(item) if key in {"id", "toolCallId"} else comparable(item)
            for key, item in value.items()
            if (key, item) != ("arguments", {})  # a default is not written
        }
    if isinstance(value, list):
        return [comparable(item) for item in value]
    return value


def _shape_of_id(call_id: str) -> str:
    return _HASHED.sub("_#", call_id)


@pytest.mark.parametrize("case", corpus.cases("sanitize_cases.json"))
def test_a_history_is_fitted_to_its_target(case: corpus.Case):
    before = copy.deepcopy(case["messages"])
    once = sanitized(case, case["messages"])
    if case["provider"] == "mistral":
        assert len(once) == len(case["expected"])  # its ids are hashes altogether
    else:
        assert comparable(once) == comparable(case["expected"])
    assert sanitized(case, once) == once
    assert case["messages"] == before
