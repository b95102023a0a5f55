"""How far the events of a shard are taken, so that who resumes its session hears the rest."""

import pytest

from gateway.edges.discord_shard import SEQ, Ledger, Token


def opened(ledger: Ledger, *numbers: int) -> list[Token]:
    found = []
    for number in numbers:
        SEQ.set(number)
        found.append(ledger.open())
    return found


@pytest.mark.parametrize(
    ("numbers", "closed", "until"),
    [
        ((), (), 9),
        ((3, 5), (), 2),
        ((3, 5), (3,), 4),
        ((3, 5), (5,), 2),
        ((3, 5), (3, 5), 9),
        ((5, 5), (5,), 4),
        ((1,), (), 0),
    ],
)
def test_everything_before_the_first_open_event_is_taken(numbers, closed, until):
    ledger = Ledger()
    tokens = opened(ledger, *numbers)
    for number in closed:
        tokens[numbers.index(number)].close()
    assert ledger.until(9) == until


def test_an_event_that_became_several_is_taken_with_the_last_of_them():
    ledger = Ledger()
    (token,) = opened(ledger, 4)
    more = [token.again(), token.again()]
    token.close()
    token.close()
    more[0].close()
    assert (ledger.until(9), ledger.is_clear) == (3, False)
    more[1].close()
    assert (ledger.until(9), ledger.is_clear) == (9, True)


def test_a_new_session_cannot_be_resumed_while_something_of_the_old_one_is_open():
    ledger = Ledger()
    (old,) = opened(ledger, 500)
    ledger.begin()
    assert ledger.until(20) == 0
    old.close()
    assert ledger.until(20) == 20
