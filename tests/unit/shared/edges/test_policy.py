from shared.config import Settings
from shared.edges.policy import LEASE_MS, Policy
from shared.i18n import load_texts
from shared.segments import AttemptSuperseded, TurnDone, TurnFailed
from shared.turns import TurnState
from shared.wire import decode_turn_event


def filled(template: str) -> object:
    text = template.replace("@count@", "3").replace("@attempt@", "1").replace("@by@", "2")
    assert "@" not in text
    return decode_turn_event(text.encode())


def test_ready_made_events_are_events():
    policy = Policy.of(Settings())
    assert filled(policy.superseded) == AttemptSuperseded(attempt=1, by=2)
    assert filled(policy.cancelled) == TurnDone(count=3, state=TurnState.CANCELLED)
    for template, cause, state in (
        (policy.expired, "request_timeout", TurnState.FAILED),
        (policy.lost, "worker_lost", TurnState.FAILED),
        (policy.dead, "worker_lost", TurnState.DEAD),
    ):
        event = filled(template)
        assert isinstance(event, TurnFailed)
        assert (event.cause, event.count, event.state) == (cause, 3, state)
        assert event.headline


def test_headlines_are_keys_that_every_catalog_has():
    """The scripts know no languages; the gateway says the key in the reader's."""
    policy, texts = Policy.of(Settings()), load_texts()
    for template in (policy.expired, policy.lost, policy.lost_in_tool, policy.dead):
        event = filled(template)
        assert isinstance(event, TurnFailed)
        for locale in texts.locales:
            assert texts.text(event.headline, locale) != event.headline


def test_limits_come_from_the_settings():
    policy = Policy.of(Settings(slots=100, guild_depth=5, global_depth=6, turn_deadline_s=7))
    assert (policy.guild_depth, policy.global_depth, policy.guild_running) == (5, 6, 25)
    assert (policy.wait_ms, policy.run_ms, policy.crash) == (7000, 7000, "supersede")
    assert policy.lease_ms == LEASE_MS == 6000


def test_a_small_worker_still_runs_two_turns_of_a_guild():
    assert Policy.of(Settings(slots=1)).guild_running == 2
