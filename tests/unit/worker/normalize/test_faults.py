import pytest

from worker.normalize.faults import NO_MESSAGE, reason_of, serving_provider_of


@pytest.mark.parametrize(
    ("error", "code", "message", "status"),
    [
        ({"code": 503, "message": "m", "status": "UNAVAILABLE"}, "503", "m", None),
        ({"code": [], "type": 0, "message": "m"}, "0", "m", None),
        ({"code": None, "type": "t", "message": "m", "status": 429}, "t", "m", 429),
        ({"code": "", "status": "S", "http_status": 500}, "S", NO_MESSAGE, 500),
        ({"message": {"a": "\ud83d"}}, None, '{"a":"\ufffd"}', None),
        ([{"code": "c", "message": "m"}], "c", "m", None),
        ("model\0 crashed", None, "model crashed", None),
        ([], None, NO_MESSAGE, None),
        (True, None, "true", None),
    ],
)
def test_facts_of_an_error(error: object, code: str | None, message: str, status: int | None):
    reason = reason_of(error)
    assert (reason.code, reason.message, reason.status) == (code, message, status)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ({"metadata": {"provider_name": "Host"}}, "Host"),
        ({"metadata": {"provider_name": 5}}, None),
        ({"metadata": []}, None),
        ("text", None),
    ],
)
def test_host_behind_a_router(error: object, expected: str | None):
    assert serving_provider_of(error) == expected
