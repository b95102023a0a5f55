"""The fake's memory: nonces, limits of messages, permissions, references."""

import pytest

from ops.rehearsal.discord.world import Channel, Draft, Refusal, User, World


class Clock:
    def __init__(self) -> None:
        self.time_s = 1_700_000_000.0

    def now_s(self) -> float:
        return self.time_s


class Town:
    """A guild with a channel, a bot and a person."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.world = World(self.clock.now_s)
        self.bot: User = self.world.add_user("bot", is_bot=True)
        self.person: User = self.world.add_user("ann")
        self.channel: Channel = self.world.add_channel(self.world.add_guild().id)

    def post(self, content: str = "hi", **facts: object) -> tuple[object, bool]:
        draft = Draft(content=content, **facts)  # type: ignore[arg-type]  # facts by name
        return self.world.post(self.bot.id, self.channel.id, draft)

    def refused(self, content: str = "hi", **facts: object) -> int:
        with pytest.raises(Refusal) as caught:
            self.post(content, **facts)
        return caught.value.code


@pytest.fixture
def town() -> Town:
    return Town()


def test_ids_grow_even_within_a_millisecond(town):
    ids = [town.world.next_id() for _ in range(100)]
    assert ids == sorted(set(ids))


def test_a_nonce_is_enforced_per_author_within_the_window(town):
    first, is_new = town.post(nonce="n", enforce_nonce=True)
    assert is_new
    assert town.post(nonce="n", enforce_nonce=True) == (first, False)
    other = Draft(content="hi", nonce="n", enforce_nonce=True)
    assert town.world.post(town.person.id, town.channel.id, other)[1]
    town.clock.time_s += town.world.nonce_window_s + 1
    assert town.post(nonce="n", enforce_nonce=True)[1]


def test_a_nonce_that_is_not_enforced_makes_two(town):
    assert town.post(nonce="n")[1]
    assert town.post(nonce="n")[1]


def test_a_nonce_of_a_deleted_message_is_unknown(town):
    message, _ = town.post(nonce="n", enforce_nonce=True)
    town.world.delete(town.bot.id, town.channel.id, message.id)
    assert town.refused(nonce="n", enforce_nonce=True) == 10008


@pytest.mark.parametrize(
    ("content", "facts", "code"),
    [
        ("x" * 2001, {}, 50035),
        ("", {}, 50006),
        (" \n", {}, 50006),
        ("hi", {"nonce": "n" * 26}, 50035),
        ("hi", {"reply_to": 1}, 50035),
    ],
    ids=["too long", "empty", "blank", "long nonce", "unknown reference"],
)
def test_what_discord_refuses_is_refused(town, content, facts, code):
    assert town.refused(content, **facts) == code


@pytest.mark.parametrize(
    ("denied", "code"), [("view", 50001), ("send", 50013)], ids=["view", "send"]
)
def test_permissions_are_asked(town, denied, code):
    town.channel.denied.add(denied)
    assert town.refused() == code


def test_a_reply_needs_the_right_to_read_history(town):
    message, _ = town.post()
    town.channel.denied.add("history")
    assert town.refused(reply_to=message.id) == 160002


def test_a_locked_thread_takes_no_message(town):
    town.channel.is_locked = True
    assert town.refused() == 160005


def test_a_deleted_channel_is_unknown(town):
    town.channel.is_deleted = True
    assert town.refused() == 10003


def test_a_missing_reference_may_be_allowed(town):
    message, _ = town.post(reply_to=1, fail_if_not_exists=False)
    assert message.reply_to is None


def test_without_allowed_mentions_everybody_is_pinged(town):
    text = f"<@{town.person.id}> <@1>"
    silent, _ = town.post(text, may_ping=())
    loud, _ = town.post(text)
    assert (silent.mentions, silent.pings) == ((town.person.id,), ())
    assert loud.pings == (town.person.id,)


def test_only_the_author_may_edit_or_delete(town):
    message, _ = town.post()
    with pytest.raises(Refusal, match="another user"):
        town.world.edit(town.person.id, town.channel.id, message.id, "x")
    with pytest.raises(Refusal, match="Missing Permissions"):
        town.world.delete(town.person.id, town.channel.id, message.id)
    assert town.world.edit(town.bot.id, town.channel.id, message.id, "x").edits == 1


def test_history_is_newest_first_and_nearest_to_the_mark(town):
    ids = [town.post(str(number))[0].id for number in range(6)]
    world, channel = town.world, town.channel.id
    after = world.history(channel, after=ids[0], before=None, limit=2)
    assert [message.id for message in after] == [ids[2], ids[1]]
    before = world.history(channel, after=None, before=ids[5], limit=2)
    assert [message.id for message in before] == [ids[4], ids[3]]
    latest = world.history(channel, after=None, before=None, limit=1)
    assert [message.id for message in latest] == [ids[5]]


def test_a_person_has_one_channel_of_direct_messages(town):
    channel = town.world.direct_channel(town.person.id)
    assert town.world.direct_channel(town.person.id) is channel
