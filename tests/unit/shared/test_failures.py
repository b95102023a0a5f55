"""Which codes may be shown, and what of upstream may be printed."""

import pytest

from shared.errors import WireError
from shared.failures import FaultDetails, ProviderFault, display_code
from shared.wire import decode_fault_details, encode_json


@pytest.mark.parametrize(
    "code",
    [429, "429", "429_balance", "429_plan_access", "404_model", "ECONNREFUSED", "overloaded",
     "invalid_request_error", "RESOURCE_EXHAUSTED", "a" * 40],
)  # fmt: skip
def test_a_code_of_a_known_form_is_shown(code):
    assert display_code(code) == str(code)


@pytest.mark.parametrize(
    "code",
    [None, "", "AbcDef", "a" * 41, "<@&42>", "@everyone", "two words", "sk_a1", "with-hyphen",
     "1113", "AKIA1234", "99", "sk_Live", "600", "4041", "429_Balance", "_x", "x_", "code\n"],
)  # fmt: skip
def test_anything_else_is_unknown(code):
    assert display_code(code) == "unknown"


def test_a_fault_shows_nothing_of_upstream_where_it_is_printed():
    key = "sk-ant-0123456789abcdef"
    fault = ProviderFault(
        provider="p", model="m", status=401, headers=(("x", key),), body=key, code=key, message=key
    )
    assert repr(fault) == "ProviderFault(provider='p', model='m', status=401, code='unknown')"
    assert key not in f"{[fault]}"


def test_details_cross_the_wire():
    details = FaultDetails(snippet="x", user_id=1)
    assert decode_fault_details(encode_json(details)) == details
    with pytest.raises(WireError, match="not the details"):
        decode_fault_details(b"{}")
