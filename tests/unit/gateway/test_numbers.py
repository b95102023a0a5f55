"""Numbers that depend on each other, and the library's exceptions that we translate."""

import inspect

import hikari.errors
import pytest

from gateway.delivery.channels import BLOCK_S
from gateway.delivery.courier import BACKOFF_S, NONCE_TRUST_S
from gateway.delivery.lanes import Pace
from gateway.delivery.turns import DEADLINE_S
from gateway.edges.discord_backfill import HORIZON_MS, OVERLAP_MS
from gateway.edges.discord_errors import BUSY, REFUSALS, outcome_of
from gateway.edges.leadership import LEASE_MS
from gateway.front import Unavailable
from gateway.typist import REFRESH_S, TYPING_TTL_S
from shared.config import Settings
from shared.lifetimes import (
    FRONT_TTL_MS,
    JOURNAL_TTL_MS,
    LOCAL_NONCE_TTL_MS,
    MARK_TTL_MS,
    SEND_BLOCK_TTL_MS,
)


def test_a_prompt_that_is_found_again_is_still_known_as_a_duplicate():
    assert HORIZON_MS + OVERLAP_MS < MARK_TTL_MS
    assert HORIZON_MS < FRONT_TTL_MS


def test_a_journal_outlives_its_reply():
    assert DEADLINE_S * 1000 + Settings().turn_deadline_s * 1000 < JOURNAL_TTL_MS


def test_a_lease_survives_two_lost_renewals():
    assert 3 * Pace().renew_s * 1000 == LEASE_MS


def test_both_marks_of_a_refusing_channel_last_as_long():
    assert BLOCK_S * 1000 == SEND_BLOCK_TTL_MS


def test_nonces_are_trusted_no_longer_than_any_front_keeps_them():
    assert NONCE_TRUST_S * 1000 < LOCAL_NONCE_TTL_MS
    assert sum(BACKOFF_S) < NONCE_TRUST_S


def test_a_typing_sign_outlives_a_turn_but_not_for_long():
    assert Settings().turn_deadline_s < TYPING_TTL_S < Settings().turn_deadline_s + 60
    assert REFRESH_S < 10


def test_no_code_is_refused_and_busy():
    assert not BUSY.intersection(REFUSALS)


KNOWN = {
    "HikariError",
    "HikariWarning",
    "HikariInterrupt",
    "ComponentStateConflictError",
    "UnrecognisedEntityError",
    "GatewayError",
    "GatewayTransportError",
    "GatewayConnectionError",
    "GatewayServerClosedConnectionError",
    "HTTPError",
    "HTTPResponseError",
    "ClientHTTPResponseError",
    "BadRequestError",
    "UnauthorizedError",
    "ForbiddenError",
    "NotFoundError",
    "RateLimitTooLongError",
    "InternalServerError",
    "BulkDeleteError",
    "SearchNotIndexedError",
    "VoiceError",
    "MissingIntentError",
    "MissingIntentWarning",
}


def test_the_library_raises_nothing_that_we_have_not_looked_at():
    found = {
        name
        for name, kind in inspect.getmembers(hikari.errors, inspect.isclass)
        if issubclass(kind, BaseException) and kind.__module__ == "hikari.errors"
    }
    assert found == KNOWN


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (TimeoutError(), "timeout"),
        (ConnectionResetError(), "connection"),
        (hikari.errors.HTTPError("no route"), "connection"),
        (hikari.errors.ComponentStateConflictError("closed"), "not_started"),
    ],
)
def test_what_is_not_understood_is_to_be_asked_again(error, reason):
    assert outcome_of(error) == Unavailable(reason=reason)
