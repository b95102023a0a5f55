"""What a worker reads of a channel: over a real Redis, and files over real sockets."""

from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager

import msgspec
import pytest
import pytest_asyncio
from aiohttp import web
from redis.asyncio import Redis

from gateway.edges.channel_memory import ChannelMemory, RememberingVoice
from gateway.front import OutgoingMessage, PromptEdited, PromptsDeleted, Sent
from shared.config import Settings
from shared.configuration.loading import Loaded
from shared.edges.history import MAX_MESSAGES, MAX_OVERHEARD, ChannelHistory
from shared.edges.redis import connect
from shared.history import Attachment, Context, Reading, Remembered
from shared.keys import Keys
from shared.lifetimes import OVERHEARD_TTL_MS
from shared.messages import ImageBlock, TextBlock
from shared.turns import Front, Route, Target, TurnOutcome, TurnRequest, TurnState
from tests.support.channel import MemoryFront
from tests.support.configurations import configuration_of
from tests.support.servers import free_port, running_server
from tests.support.turns import turn
from worker.edges.attachments import MAX_TEXTS, Attachments
from worker.edges.context import ChannelContext
from worker.edges.guard import guard_of
from worker.edges.http import HttpEdge
from worker.providers.requests import model_request

pytestmark = pytest.mark.asyncio(loop_scope="module")
KEYS = Keys()
PNG = b"\x89PNG\r\n\x1a\n" + b"0" * 100
LIMITS = "[limits]\nimages = 1\nimage_bytes = 2000\ntext_file_bytes = 50\n"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def redis() -> AsyncIterator[Redis]:
    with running_server("redis") as server:
        async with aclosing(connect(server.url)) as client:
            yield client


@asynccontextmanager
async def files() -> AsyncIterator[str]:
    """A host of files, as Discord's."""

    async def give(request: web.Request) -> web.Response:
        bodies = {"cat.png": PNG, "big.png": PNG * 30, "a.txt": b"milk", "b.txt": b"x\0y"}
        name = request.match_info["name"]
        if name not in bodies:
            raise web.HTTPNotFound
        return web.Response(body=bodies[name], content_type="application/octet-stream")

    app = web.Application()
    app.router.add_get("/{name}", give)
    running = web.AppRunner(app)
    await running.setup()
    port = free_port()
    await web.TCPSite(running, "127.0.0.1", port).start()
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        await running.cleanup()


def context(redis: Redis, http: HttpEdge, text: str = LIMITS) -> ChannelContext:
    loaded = Loaded(settings=Settings(), configuration=configuration_of(text))
    return ChannelContext(ChannelHistory(redis, KEYS), Attachments(http), lambda: loaded)


def asking(channel_id: int, **reading: object) -> TurnRequest:
    made = turn()
    route = msgspec.structs.replace(made.route, channel_id=channel_id)
    facts = {"before": 10_000, **reading}
    read = Reading(**facts)  # type: ignore[arg-type]  # facts by name
    return msgspec.structs.replace(made, route=route, reading=read)


def said(number: int, text: str, **more: object) -> Remembered:
    facts = {"id": number, "user_id": 1, "text": text, **more}
    return Remembered(**facts)  # type: ignore[arg-type]  # facts by name


async def test_a_channel_keeps_its_latest_messages_in_order_and_begins_afresh(redis: Redis):
    history = ChannelHistory(redis, KEYS)
    first = 175928847299117000  # beyond what a float, and so Lua's number, can tell apart
    for number in range(MAX_MESSAGES + 20):
        await history.remember(1, said(first + number, str(number)))
    found = await history.read(1, before=first + 10_000)
    assert [one.text for one in found] == [str(number) for number in range(20, MAX_MESSAGES + 20)]
    assert await redis.pttl(KEYS.history(1)) > 0
    await redis.set(KEYS.context_start(1), first + 215)
    found = await history.read(1, before=first + 218)
    assert [one.text for one in found] == ["216", "217"]


async def test_a_channel_that_does_not_speak_with_the_bot_is_hardly_remembered(redis: Redis):
    history = ChannelHistory(redis, KEYS)
    for number in range(1, 41):
        await history.remember(9, said(number, str(number)), is_with_bot=False)
    assert len(await history.read(9, before=100)) == MAX_OVERHEARD
    assert await redis.pttl(KEYS.history(9)) <= OVERHEARD_TTL_MS
    await history.remember(9, said(41, "to the bot"))
    for number in range(42, 82):
        await history.remember(9, said(number, str(number)), is_with_bot=False)
    found = await history.read(9, before=100)
    assert len(found) == MAX_OVERHEARD + 41
    assert await redis.pttl(KEYS.history(9)) > OVERHEARD_TTL_MS


async def test_edits_deletions_notices_and_superseded_text(redis: Redis):
    history = ChannelHistory(redis, KEYS)
    memory = ChannelMemory(history)
    front = MemoryFront()
    route = Route(front=Front.LOCAL, channel_id=2, user_id=5, reply_to=1)
    voice = RememberingVoice(front, memory, route)

    async def say(text: str, nonce: str, *, is_notice: bool = False) -> int:
        message = OutgoingMessage(channel_id=2, text=text, nonce=nonce, is_notice=is_notice)
        outcome = await voice.send(message)
        assert isinstance(outcome, Sent)
        return outcome.message_id

    for number, text in ((1, "asked"), (2, "edited later"), (3, "deleted later"), (4, "emptied")):
        await history.remember(2, said(number, text))
    await memory.changed(PromptEdited(channel_id=2, turn_id="m2", text="edited"))
    await memory.changed(PromptsDeleted(channel_id=2, turn_ids=("m3", "i99")))
    await memory.changed(PromptEdited(channel_id=2, turn_id="m4", text=""))
    kept = await say("first attempt, part one", "a")
    gone = await say("first attempt, part two", "b")
    await say("I am busy.", "c", is_notice=True)
    await voice.edit(2, kept, "the whole reply")
    await voice.delete(2, gone)
    turned = await say("half a rep", "d")
    await voice.edit(2, turned, "It failed.", is_notice=True)
    found = await history.read(2, before=1 << 62)
    assert [one.text for one in found] == ["asked", "edited", "the whole reply"]
    assert found[-1].is_own
    assert found[-1].reply_to == 1


async def test_a_turn_reads_what_its_channel_said_and_notes_for_the_next(redis: Redis):
    history = ChannelHistory(redis, KEYS)
    await history.remember(3, said(1, "hello", author="Ann"))
    await history.remember(3, said(20_000, "after the prompt"))
    reader = context(redis, HttpEdge())
    request = asking(3, author="Bea", details_hours=1.0)
    read = await reader.prepared(request)
    assert [message.content for message in read.messages[:-1]] == ["Ann: hello"]
    outcome = TurnOutcome(state=TurnState.DONE, segments=1, details=(" the hero is Ida ", ""))
    await reader.noted(request, outcome)
    failed = TurnOutcome(state=TurnState.FAILED, segments=0, details=("no",))
    await reader.noted(request, failed)
    later = await reader.prepared(request)
    assert later.system is not None
    assert later.system.endswith("- the hero is Ida")
    assert 0 < await redis.pttl(KEYS.details(3)) <= 3_600_000
    silent = await reader.prepared(asking(3, details_hours=0.0))
    assert silent.system is None
    nothing = await reader.prepared(asking(3, context=Context.NONE))
    assert len(nothing.messages) == 1


async def test_files_are_read_within_bounds_and_from_allowed_hosts_only(redis: Redis):
    async with files() as url:
        http = HttpEdge(guard_of("", {"files": url}))
        names = ["cat.png", "a.txt", "b.txt", "gone.txt", "big.png"]
        attached = [
            Attachment(id=number, name=name, url=f"{url}/{name}", mime_type=kind)
            for number, name in enumerate(names)
            for kind in ["image/png" if name.endswith("png") else "text/plain"]
        ]
        attached += [
            Attachment(id=7, name="far.txt", url="https://example.org/far.txt"),
            Attachment(id=8, name="inside.txt", url="http://127.0.0.1:1/inside.txt"),
            Attachment(id=9, name="long.txt", url=f"{url}/a.txt", size_bytes=51),
            Attachment(id=10, name="film.mp4", url=f"{url}/film.mp4", mime_type="video/mp4"),
        ]
        read = await context(redis, http).prepared(asking(4, attachments=tuple(attached)))
        content = read.messages[-1].content
        assert isinstance(content, list)
        shown = [block for block in content if isinstance(block, ImageBlock)]
        assert [block.mime_type for block in shown] == ["image/png"]
        texts = [block.text for block in content[1:] if isinstance(block, TextBlock)]
        assert texts[0] == "[File a.txt]\nmilk\n[End of the file]"
        reasons = {text.split(",")[0].split()[-1]: text for text in texts[1:]}
        assert "only 1 pictures" in reasons["big.png"]
        assert "not a text" in reasons["b.txt"]
        assert "not there any more" in reasons["gone.txt"]
        assert "not where Discord keeps files" in reasons["far.txt"]
        assert "not where Discord keeps files" in reasons["inside.txt"]
        assert "over 50 bytes" in reasons["long.txt"]
        assert "not a text" in reasons["film.mp4"]
        await http.close()


async def test_many_prompts_in_one_turn_read_no_more_files_than_one(redis: Redis):
    async with files() as url:
        http = HttpEdge(guard_of("", {"files": url}))
        attached = [
            Attachment(id=n, name="a.txt", url=f"{url}/a.txt") for n in range(MAX_TEXTS + 2)
        ]
        read = await context(redis, http).prepared(asking(5, attachments=tuple(attached)))
        texts = [block.text for block in read.messages[-1].content if isinstance(block, TextBlock)]
        assert sum("milk" in text for text in texts) == MAX_TEXTS
        assert sum("only 20 files" in text for text in texts) == 2
        await http.close()


async def test_a_question_fits_its_model(redis: Redis):
    text = '[models.a]\nprovider = "x"\nmodel = "y"\nvision = false\n'
    reader = context(redis, HttpEdge(), text)
    request = msgspec.structs.replace(turn(), target=Target(provider="x", model="y"))
    assert reader.fitted(model_request(request)).reads_images is False
    other = msgspec.structs.replace(turn(), target=Target(provider="x", model="z"))
    assert reader.fitted(model_request(other)).reads_images is True
