"""What a report of an event that tripped over a bug says, and what it does not."""

import pytest

from gateway.edges.mishaps import event_mishap, mishap
from gateway.front import FrontEvent, PlaceGone, Prompt, PromptEdited
from shared.failures import ErrorReport
from shared.turns import Front

WORDS = "what a person wrote, in full length"


def tripped(event: FrontEvent) -> ErrorReport:
    try:
        raise ValueError(f"cannot read {WORDS!r}")
    except ValueError as exc:
        return event_mishap(exc, event)


ID = "1187001234567890222"
TOKEN = "aW50ZXJhY3Rpb246" + "Q" * 80


@pytest.mark.parametrize(
    "path",
    [
        f"channels/{ID}/messages",
        f"channels/{ID}/messages/{ID}?with=x",
        f"webhooks/{ID}/{TOKEN}/messages/@original",
        f"interactions/{ID}/{TOKEN}/callback",
    ],
)
def test_an_address_of_discord_tells_no_id_and_no_token(path: str):
    error = OSError(f"403: Missing Access for https://discord.com/api/v10/{path}")
    report = mishap("intake", error)
    for text in (report.message, str(report.stack_trace)):
        assert f"/{path.split('/')[0]}/ID/" in text
        assert ID not in text
        assert TOKEN not in text


def test_a_prompt_is_reported_with_its_place_and_without_its_words():
    prompt = Prompt(
        front=Front.DISCORD, message_id=1, channel_id=7, user_id=5, guild_id=3, text=WORDS
    )
    report = tripped(prompt)
    assert (report.stage, report.channel_id, report.guild_id, report.user_id) == ("intake", 7, 3, 5)
    assert report.metadata == {"event": "Prompt"}
    assert "ValueError" in report.message
    assert "test_mishaps.py" in str(report.stack_trace)
    assert "person" not in report.message + str(report.stack_trace).replace(__doc__ or "", "")


def test_an_edit_is_reported_without_its_words():
    report = tripped(PromptEdited(channel_id=7, turn_id="m1", text=WORDS))
    assert "person wrote" not in report.message + str(report.stack_trace)


def test_a_place_that_went_away_has_perhaps_no_channel():
    report = tripped(PlaceGone(guild_id=3))
    assert (report.channel_id, report.metadata) == (None, {"event": "PlaceGone"})
