"""The table of causes is whole, and tips suit whoever's key answered."""

import pytest

from shared.causes import (
    BILLING_CAUSES,
    CAUSES,
    Cause,
    Tip,
    facts_of,
    fault_of,
    needs_operator,
    notice_of,
    tips_for,
)
from shared.failures import FailureCategory, Fault
from shared.turns import CredentialSource

SERVER, PERSONAL, SUPPORTER = CredentialSource


def test_every_cause_has_a_row():
    assert set(CAUSES) == set(Cause)


def test_every_category_has_a_cause():
    assert {facts.category for facts in CAUSES.values()} == set(FailureCategory)


def test_every_tip_is_given_to_somebody():
    given = {
        tip for cause in Cause for source in CredentialSource for tip in tips_for(cause, source)
    }
    assert given == set(Tip)


OPERATOR = {
    "invalid_key", "permission_denied", "plan_access_denied", "insufficient_balance",
    "endpoint_not_found", "connection_refused", "region_not_supported", "upstream_error",
    "model_not_found", "internal_error", "worker_lost", "limit_exceeded", "endpoint_not_allowed",
}  # fmt: skip


@pytest.mark.parametrize("cause", Cause)
def test_a_row_is_made_of_what_the_operator_can_mend(cause):
    assert needs_operator(cause, SERVER) == (cause in OPERATOR)
    internal = facts_of(cause).category is FailureCategory.INTERNAL
    for source in (PERSONAL, SUPPORTER):
        assert needs_operator(cause, source) == internal


@pytest.mark.parametrize("cause", Cause)
def test_a_personal_key_gets_no_tip_about_the_server(cause):
    tips = tips_for(cause, PERSONAL)
    server_forms = {Tip.ROTATE_KEYS, Tip.ADD_FALLBACK, Tip.CHECK_KEY, Tip.TOP_UP, Tip.SWITCH_MODEL}
    assert server_forms.isdisjoint(tips)


def test_a_personal_key_is_told_the_way_back():
    assert tips_for(Cause.INVALID_KEY, PERSONAL) == (Tip.CHECK_PERSONAL_KEY, Tip.DISABLE_OVERRIDE)
    assert Tip.DISABLE_OVERRIDE not in tips_for(Cause.CONTENT_FILTER, PERSONAL)


@pytest.mark.parametrize("cause", Cause)
def test_a_supporter_gets_no_tips_of_the_provider(cause):
    assert tips_for(cause, SUPPORTER) == ()


@pytest.mark.parametrize("cause", sorted(BILLING_CAUSES))
def test_billing_denials_have_their_own_copy_and_no_tips(cause):
    assert tips_for(cause, SERVER) == ()
    assert notice_of(cause, SERVER).headline == f"failure.{cause}"


def test_a_wrong_configuration_is_the_users_where_the_key_is():
    assert fault_of(Cause.INVALID_KEY, SERVER) is Fault.CONFIG
    assert fault_of(Cause.INVALID_KEY, PERSONAL) is Fault.USER
    assert fault_of(Cause.OVERLOADED, PERSONAL) is Fault.PROVIDER


def test_a_cause_of_a_newer_version_is_an_internal_error():
    assert facts_of("from_the_future") is CAUSES[Cause.INTERNAL_ERROR]
    notice = notice_of("from_the_future", SERVER)
    assert (notice.headline, notice.footer) == ("failure.internal_error", "fault.turnfleet")
