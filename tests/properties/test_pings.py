"""No text pings anybody, on any path that leads to Discord: what is sent, edited, whispered, asked.

The property draws texts that would ping, and looks at every request that Discord got. That there is
no other path is seen in the code: every call of hikari that names a text is found and read.
"""

import ast
import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from gateway.asks import Answers, Ask, Field, Form
from gateway.edges.discord_voices import Voices
from gateway.front import Button, OutgoingFile, OutgoingMessage
from ops.rehearsal.discord.world import Message
from shared.segments import Envelope, SegmentKind
from shared.turns import Speaker
from tests.support.discord_bench import DiscordBench, running_bench
from tests.support.envelopes import done, failed, superseded, text

GATEWAY = Path(__file__).parents[2] / "gateway"
ANN = 5
MENTIONS = ["@everyone", "@here", "<@5>", "<@!5>", "<@&7>", "\\@everyone", "`@here`", "<@5", "hi "]
texts = st.lists(st.sampled_from(MENTIONS), min_size=1, max_size=8).map("".join)
examples = settings(
    max_examples=6,
    deadline=None,
    phases=(Phase.generate,),  # a world for each example: shrinking would take minutes
    suppress_health_check=[HealthCheck.too_slow],
)
MODAL = 9
FILE = OutgoingFile(name="@everyone <@5>.txt", data=b"@everyone")
LABELS = (Button(custom_id="x", label="@everyone"),)


@given(words=texts, more=texts, may_ping=st.booleans())
@examples
def test_nobody_is_pinged_by_what_is_said(words: str, more: str, may_ping: bool):
    async def play() -> None:
        async with running_bench() as bench:
            await _front(bench, words, more, may_ping=may_ping)
            await _persona(bench, words, more)
            await _delivery(bench, words, more)
            _check(bench, may_ping=may_ping)

    asyncio.run(play())


@given(words=texts)
@examples
def test_nobody_is_pinged_by_an_answer_to_an_interaction(words: str):
    async def play() -> None:
        async with running_bench() as bench:
            await _interactions(bench, words)
            answers = bench.discord.interactions.answers
            said: list[Any] = [
                one.get("data") or one for one in answers if one.get("type") != MODAL
            ]
            assert len(said) < len(answers)
            for one in said:
                assert "content" not in one or _is_silent(one)
            assert all(not message.pings for message in bench.discord.replies(bench.channel.id))

    asyncio.run(play())


async def _front(bench: DiscordBench, words: str, more: str, *, may_ping: bool) -> None:
    """Messages and notices, with files and buttons, and their edits."""
    prompt = await bench.discord.say(bench.channel.id, bench.ann, "hello")
    for number, is_notice in enumerate((False, True)):
        message = OutgoingMessage(
            channel_id=bench.channel.id,
            text=words,
            nonce=f"n{number}",
            reply_to=prompt.id,
            files=(FILE,),
            may_ping=(ANN,) if may_ping else (),
            buttons=LABELS,
            is_notice=is_notice,
        )
        await bench.live.send(message)
        last = bench.discord.replies(bench.channel.id)[-1]
        await bench.live.edit(
            bench.channel.id, last.id, more, is_notice=is_notice, files=(FILE,), buttons=LABELS
        )


async def _persona(bench: DiscordBench, words: str, more: str) -> None:
    """A webhook's messages under a name that would ping, and their edits."""
    route = bench.reply(words)[0].route
    route = msgspec.structs.replace(route, speaker=Speaker(name="@everyone <@5>"))
    voice = Voices(bench.live, bench.clock.now_s).of(route)
    message = OutgoingMessage(
        channel_id=bench.channel.id, text=words, nonce="p", files=(FILE,), buttons=LABELS
    )
    await voice.send(message)
    posted = _last(bench)
    assert posted.shown_name == "@everyone <@5>"
    await voice.edit(bench.channel.id, posted.id, more, files=(FILE,), buttons=LABELS)


async def _delivery(bench: DiscordBench, words: str, more: str) -> None:
    """Previews, texts, tables drawn and not, files, what a new attempt rewrites, notices."""
    bench.painter.picture = b"png"
    where = bench.channel.id
    made = [
        text(1, words, channel=where),
        text(2, f"| {words} |", kind=SegmentKind.TABLE, fallback=(words,), channel=where),
        text(3, f"```\n{words}\n```", kind=SegmentKind.FILE, name="@here.txt", channel=where),
        superseded(2, channel=where),
        text(1, more, attempt=2, channel=where),
        failed(1, words, attempt=2, channel=where),
    ]
    for envelope in (bench.grown(0, words), *(bench.routed(one) for one in made)):
        await bench.deliver(envelope)
    table: Envelope = text(1, f"| {words} |", kind=SegmentKind.TABLE, turn="m2", channel=where)
    await bench.deliver(bench.routed(table), bench.routed(done(1, turn="m2", channel=where)))


async def _interactions(bench: DiscordBench, words: str) -> None:
    """Said for all and changed, whispered first and later, with a file, and in a window."""
    ways = iter(range(4))

    async def answer(ask: Ask, answers: Answers) -> None:
        del ask
        match next(ways):
            case 0:
                await answers.say(words)
                await answers.change(words)
                await answers.whisper(words)
            case 1:
                await answers.whisper(words, files=(FILE,))
                await answers.whisper(words)
            case 2:
                await answers.wait()
                await answers.whisper(words)
                await answers.whisper(words, files=(FILE,))
            case _:
                field = Field(key="a", label=words[:40], placeholder=words[:90])
                await answers.form(Form(custom_id="f", title="@here", text=words, fields=(field,)))

    bench.live.answer(answer)
    for _ in range(4):
        asked = await bench.discord.interactions.command(bench.channel.id, bench.ann, "ask", {})
        await asked.until(lambda one: one.first is not None)
    async with asyncio.timeout(10):
        while len(bench.discord.interactions.answers) < 9:
            await asyncio.sleep(0.005)


def _last(bench: DiscordBench) -> Message:
    return bench.discord.world.shown(bench.channel.id)[-1]


def _check(bench: DiscordBench, *, may_ping: bool) -> None:
    said = [call for call in bench.discord.calls if call.body.get("content") is not None]
    assert len(said) >= 4 + 2 + 4  # of the front, of the persona, of delivery
    assert any("/webhooks/" in call.path for call in said)
    for call in said:
        assert _is_silent(call.body, frozenset({str(ANN)} if may_ping else ()))
        assert not any(one.get("description") for one in call.body.get("attachments") or ())
    for message in bench.discord.world.shown(bench.channel.id):
        assert not message.pings or (may_ping and message.pings == (ANN,))


def _is_silent(body: dict[str, Any], may: frozenset[str] = frozenset()) -> bool:
    """Whether a request says itself whom it may ping: nobody, or those."""
    allowed = body["allowed_mentions"]
    users = {str(one) for one in allowed.get("users") or ()}
    others = allowed.get("roles") or allowed.get("replied_user")
    return allowed["parse"] == [] and users <= may and not others


IDS = {
    "create_message": 1,
    "edit_message": 2,
    "execute_webhook": 2,
    "edit_webhook_message": 3,
    "create_interaction_response": 3,
    "edit_interaction_response": 2,
}
"""What can say something, and how many ids stand before the text."""
SILENT = {"mentions_everyone": "False", "role_mentions": "False", "user_mentions": "False"}
MAY_PING = "list(message.may_ping)"
FILES = sorted(path.relative_to(GATEWAY).as_posix() for path in GATEWAY.rglob("*.py"))


def _calls(name: str) -> Iterator[ast.Call]:
    for node in ast.walk(ast.parse((GATEWAY / name).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            yield node


def test_every_call_that_says_something_says_whom_it_may_ping():
    found = 0
    for name in FILES:
        for call in _calls(name):
            assert isinstance(call.func, ast.Attribute)
            ids = IDS.get(call.func.attr)
            if ids is None or len(call.args) <= ids:
                continue
            given_ = {one.arg: ast.unparse(one.value) for one in call.keywords}
            if given_.get("user_mentions") == MAY_PING:
                given_["user_mentions"] = "False"
            assert SILENT.items() <= given_.items(), f"{name}:{call.lineno}"
            if call.func.attr in ("create_message", "edit_message"):
                assert given_.get("mentions_reply") == "False", f"{name}:{call.lineno}"
            found += 1
    assert found >= len(IDS)


@pytest.mark.parametrize("kind", ["respond", "send", "create_forum_post", "create_thread"])
def test_there_is_no_other_way_to_say_something(kind: str):
    """hikari's own shorthands ask by their defaults."""
    owners = ("message", "interaction", "channel", "event", "rest", "_rest", "bot", "_bot", "user")
    for name in FILES:
        for call in _calls(name):
            assert isinstance(call.func, ast.Attribute)
            if call.func.attr == kind:
                owner = ast.unparse(call.func.value).rsplit(".", 1)[-1]
                assert owner not in owners, f"{name}:{call.lineno}"
