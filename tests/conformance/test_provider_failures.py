"""Bug reports against the chunk room and the classifier: what a channel sees, and why it failed."""

import json
from datetime import datetime
from typing import Any

import pytest

from shared.causes import notice_of
from shared.failures import ProviderFault, display_code
from shared.i18n import load_texts
from shared.turns import CredentialSource
from shared.wire import encode_json
from tests.support import corpus, cuttings
from tests.support.chunks import Said, case_bytes, run_case
from worker.chunks.types import ErrorChunk
from worker.failures.classify import classify
from worker.failures.reports import AttemptIdentity, report_of


@pytest.fixture(scope="module")
def texts():
    return load_texts()


@pytest.mark.parametrize(
    "case", corpus.cases("provider_cases.jsonl", where=lambda case: case["kind"] == "stream")
)
def test_stream_gives_the_expected_chunks_in_every_cutting(case: corpus.Case):
    data = case_bytes(case)
    whole = run_case(case, [data])
    assert seen(whole, case["expect"]) == wanted(case["expect"])
    check_extra(case.get("extra", {}), whole)
    for size in (1, 7):
        assert run_case(case, cuttings.pieces(data, size)).chunks == whole.chunks


def wanted(expect: dict[str, Any]) -> dict[str, Any]:
    """`expect` with the white space at both ends off the texts, as the cases are compared."""
    facts = dict(expect)
    for name in ("text", "thinking"):
        if facts.get(name) is not None:
            facts[name] = facts[name].strip()
    return facts


def seen(said: Said, expect: dict[str, Any]) -> dict[str, Any]:
    """The same keys of what the room gave."""
    end = said.end
    error = end.error if isinstance(end, ErrorChunk) else None
    facts: dict[str, Any] = {
        "text": said.text.strip(),
        "thinking": said.thoughts.strip(),
        "stop_reason": said.metadata["stop_reason"],
        "error": error and judged(error),
        "tool_calls": [
            {"name": call.name, "args": call.args, "truncated": call.arguments_truncated}
            for call in said.calls
        ],
        "usage": usage(said.metadata["usage"], expect.get("usage")),
    }
    return {name: facts[name] for name in expect}


def judged(error: Any) -> dict[str, Any]:
    return {
        "category": error.category.value,
        "cause": error.cause,
        "retryable": error.retryable,
    }


def usage(found: dict[str, Any], expected: dict[str, Any] | None) -> dict[str, Any] | None:
    """The counts that are asked for; none at all is None."""
    if expected is None:
        return found or None
    return {name: found.get(name) for name in expected}


def check_extra(extra: dict[str, Any], said: Said) -> None:
    facts = {
        "serving_provider": said.end.serving_provider,
        "raw_finish_reason": said.metadata["raw_stop_reason"],
        "empty_reply": said.metadata.get("empty_reply"),
        "reasoning_present": said.metadata["reasoning_present"],
        "tool_call_ids": [call.id for call in said.calls],
    }
    assert {name: facts[name] for name in extra if name in facts} == {
        name: value for name, value in extra.items() if name in facts
    }
    assert not [word for word in extra.get("text_must_not_contain", ()) if word in said.text]


@pytest.mark.parametrize(
    "case", corpus.cases("provider_cases.jsonl", where=lambda case: case["kind"] == "error")
)
def test_error_is_classified_and_shows_nothing_of_upstream(case: corpus.Case, texts):
    key = case.get("context", {}).get("api_key")
    error = classify(fault_of(case), [key] if key else [])
    assert judged(error) == case["expect"]["error"]
    extra = case.get("extra", {})
    if "retry_after_s" in extra:
        assert error.retry_after_s == extra["retry_after_s"]
    if "serving_provider" in extra:
        assert error.serving_provider == extra["serving_provider"]
    public = public_words(error, texts)
    assert not [word for word in extra.get("public_must_not_contain", ()) if word in public]
    report = encode_json(
        report_of(
            error, AttemptIdentity(turn_id="m1", attempt=1), report_id="r", created_ms=0,
            secrets=[key] if key else [],
        )
    ).decode()  # fmt: skip
    assert not [word for word in extra.get("log_must_not_contain", ()) if word in report]


def fault_of(case: corpus.Case) -> ProviderFault:
    answer = case["input"]
    now = case.get("context", {}).get("now")
    return ProviderFault(
        provider=case["provider"],
        status=answer["status"],
        headers=tuple(answer["headers"].items()),
        body=answer["body"],
        exception=answer.get("exception"),
        message=answer.get("exception_text"),
        now_s=datetime.fromisoformat(now).timestamp() if now else 0.0,
    )


def public_words(error: Any, texts: Any) -> str:
    """All that a channel may see of a failure, for every kind of credential."""
    said = [display_code(error.code)]
    for source in CredentialSource:
        notice = notice_of(error.cause, source)
        said += [texts.text(key) for key in (notice.headline, *notice.tips, notice.footer)]
    return json.dumps(said)
