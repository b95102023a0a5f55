"""Faults of every source, named: bodies in any wrapping, connections, our own codes."""

import json
import time

import pytest

from shared.causes import CAUSES, Cause
from shared.failures import SNIPPET_CHARS, ProviderFault
from worker.failures.classify import OWN_CODES, classify, error_of
from worker.failures.facts import MAX_BODY_CHARS, Facts

KEY = "tf-fake-key-4c1d9e77aa20"


def fault(status: int = 0, body: object = "", **facts: object) -> ProviderFault:
    text = body if isinstance(body, str) else json.dumps(body)
    return ProviderFault(provider="custom", status=status, body=text, **facts)  # type: ignore[arg-type]  # the facts vary


def nested(levels: int) -> object:
    value: object = {"error": {"code": "insufficient_quota"}}
    for _ in range(levels):
        value = {"error": value}
    return value


def wrapped(text: str, routers: int) -> object:
    """The text as the message of an error, handed on as JSON text by so many routers."""
    value: object = {"error": {"message": text}}
    for _ in range(routers):
        raw = {"raw": json.dumps(value), "provider_name": "host"}
        value = {"error": {"message": "Provider returned error", "metadata": raw}}
    return value


@pytest.mark.parametrize("routers", range(9))
def test_what_was_said_is_read_behind_any_number_of_routers(routers: int):
    said = wrapped("This model's maximum context length is 8192 tokens", routers)
    assert classify(fault(400, said)).cause == "context_overflow"


@pytest.mark.parametrize(
    ("given", "cause"),
    [
        (fault(400, {"message": '{"code": "insufficient_quota"}'}), "insufficient_balance"),
        (fault(400, [7, {"error": {"code": "insufficient_quota"}}]), "insufficient_balance"),
        (fault(400, '"billing hard limit"'), "insufficient_balance"),
        (fault(400, {"detail": [{"msg": "prompt is too long"}]}), "context_overflow"),
        (fault(400, nested(20)), "insufficient_balance"),
        (fault(400, nested(40)), "invalid_request"),
        (fault(400, '{"error": {"message": "prompt is too long"'), "context_overflow"),
        (fault(400, "[" * 5000), "invalid_request"),
        (fault(418, ""), "invalid_request"),
        (fault(599, ""), "upstream_error"),
        (fault(200, {"error": {"code": 429}}), "rate_limited"),
        (fault(200, {"error": {"code": "429"}}), "rate_limited"),
        (fault(0, {"code": True, "type": None, "status": 4.5}), "upstream_error"),
        (fault(0, "", code="network_error"), "upstream_error"),
        (fault(0, "", code="MALFORMED_FUNCTION_CALL"), "malformed_function_call"),
        (fault(0, "", message="Too many requests"), "rate_limited"),
        (fault(400, {"message": "Too many tokens, please wait before trying"}), "rate_limited"),
        (fault(400, {"error": {"message": "unknown parameter: timeout"}}), "invalid_request"),
        (fault(401, {"error": {"details": [{"method": "StreamGenerateContent"}]}}), "invalid_key"),
    ],
    ids=["JSON in a message", "array", "bare string", "detail list", "nested", "nested too deep",
         "cut JSON", "endless brackets", "unknown 4xx", "unknown 5xx", "number in a 200",
         "digits in a 200", "odd types", "word of ours", "word of Google", "message only",
         "tokens a minute", "timeout as a word", "rate inside a word"],
)  # fmt: skip
def test_cause(given, cause):
    error = classify(given)
    row = CAUSES[Cause(cause)]
    assert (error.cause, error.category, error.retryable) == (cause, row.category, row.is_retryable)


@pytest.mark.parametrize(
    ("exception", "text", "cause"),
    [
        ("ConnectTimeout", "", "network_timeout"),
        ("httpx.ReadTimeout", "", "network_timeout"),
        ("TimeoutError", "", "network_timeout"),
        ("ConnectError", "[Errno 111] Connection refused", "connection_refused"),
        ("ConnectionRefusedError", "", "connection_refused"),
        ("RemoteProtocolError", "peer closed connection", "connection_lost"),
        ("ReadError", "", "connection_lost"),
        ("EndpointNotAllowed", "", "endpoint_not_allowed"),
        ("BodyTooLarge", "", "limit_exceeded"),
    ],
)
def test_cause_of_a_broken_connection(exception, text, cause):
    assert classify(fault(0, exception=exception, message=text)).cause == cause


def test_an_error_status_counts_more_than_the_connection_that_broke_behind_it():
    assert classify(fault(429, exception="ReadError")).cause == "rate_limited"
    assert classify(fault(200, exception="ReadError")).cause == "connection_lost"


@pytest.mark.parametrize("code", sorted(OWN_CODES))
def test_a_code_of_ours_is_its_own_cause(code):
    error = classify(fault(0, code=code, message="said by the normalizer"))
    assert (error.cause, error.retryable) == (code, CAUSES[code].is_retryable)
    assert classify(fault(0, {"error": {"code": 429}}, code=code)).cause == "rate_limited"


def test_the_message_is_redacted_and_capped():
    error = classify(fault(401, {"error": {"message": f"bad key {KEY} " + "x" * 5000}}), [KEY])
    assert error.message.startswith("bad key [redacted:key]")
    assert len(error.message) == SNIPPET_CHARS


def test_a_page_is_no_message():
    error = classify(fault(502, "<html>Your IP: 203.0.113.7</html>"))
    assert (error.cause, error.message) == ("bad_gateway", "")


def test_the_host_behind_a_router_is_named():
    body = {"error": {"metadata": {"provider_name": "InvHost", "raw": "rate-limited upstream"}}}
    assert classify(fault(429, body)).serving_provider == "InvHost"


@pytest.mark.parametrize(
    ("given", "code"),
    [
        (fault(400, {"error": {"code": "tool_use_failed", "type": "error"}}), "tool_use_failed"),
        (fault(400, {"error": {"code": 400}}), "400"),
        (fault(400, ""), None),
        (fault(400, "", code="given"), "given"),
    ],
)
def test_the_code_for_the_record(given, code):
    assert classify(given).code == code


def test_a_refused_parameter_is_named():
    body = {"error": {"message": "Unsupported parameter: 'top_p' is not supported"}}
    assert classify(fault(400, body)).parameter == "top_p"
    assert (
        classify(fault(400, {"error": {"message": "temperature must be below 2"}})).parameter
        is None
    )
    assert classify(fault(400, {"error": {"message": "unknown field: x"}})).parameter is None


def test_an_error_of_our_own():
    error = error_of(Cause.PROMPT_BLOCKED, code="SAFETY")
    assert (error.cause, error.code, error.retryable) == ("prompt_blocked", "SAFETY", False)


def test_texts_are_read_up_to_a_bound():
    facts = Facts(
        fault(0, [{"message": "x" * 40_000}, {"message": "y" * 40_000}, {"message": "z"}])
    )
    assert "z" not in facts.text
    assert len(facts.text) <= 2 * MAX_BODY_CHARS


UNITS = {
    "brackets": "[", "objects": '{"error":', "models": "models/", "model": "model ",
    "tokens": "input token count ", "afford": "can only afford ", "retry": "retry in 1",
    "codes": '{"code":"insufficient_quota"},', "quotes": '\\"', "spaces": " ",
}  # fmt: skip


@pytest.mark.parametrize("unit", UNITS.values(), ids=UNITS)
def test_time_grows_with_the_body_and_no_faster(unit):
    def seconds(chars: int) -> float:
        given = fault(400, {"error": {"message": (unit * chars)[:chars]}})
        best = float("inf")
        for _ in range(2):
            begin = time.process_time()
            classify(given, [KEY])
            best = min(best, time.process_time() - begin)
        return best

    assert seconds(32 * 1024) < 8 * seconds(8 * 1024) + 0.02  # a square would give 16
