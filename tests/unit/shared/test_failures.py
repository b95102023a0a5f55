"""Which codes may be shown, and who may read the details of a failure."""

import pytest

from shared.errors import WireError
from shared.failures import FaultDetails, ProviderFault, display_code
from shared.turns import CredentialSource
from shared.wire import decode_fault_details, encode_json

ME, OTHER = 1, 2


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


@pytest.mark.parametrize(
    ("source", "guild", "user", "manages", "allowed"),
    [
        (CredentialSource.SERVER, 7, ME, False, False),
        (CredentialSource.SERVER, 7, OTHER, True, True),
        (CredentialSource.SERVER, None, ME, False, True),
        (CredentialSource.SERVER, None, OTHER, True, False),
        (CredentialSource.PERSONAL, 7, ME, False, True),
        (CredentialSource.PERSONAL, 7, OTHER, True, False),
        (CredentialSource.SUPPORTER, 7, ME, True, False),
    ],
)
def test_who_could_replace_the_key_may_read(source, guild, user, manages, allowed):
    details = FaultDetails(snippet="x", credential_source=source, user_id=ME, guild_id=guild)
    assert details.may_be_read_by(user, manages_server=manages) is allowed


def test_a_fault_shows_nothing_of_upstream_where_it_is_printed():
    key = "sk-ant-0123456789abcdef"
    fault = ProviderFault(
        provider="p", model="m", status=401, headers=(("x", key),), body=key, code=key, message=key
    )
    assert repr(fault) == "ProviderFault(provider='p', model='m', status=401, code='unknown')"
    assert key not in f"{[fault]}"


def test_details_cross_the_wire():
    details = FaultDetails(snippet="x", user_id=ME)
    assert decode_fault_details(encode_json(details)) == details
    with pytest.raises(WireError, match="not the details"):
        decode_fault_details(b"{}")
