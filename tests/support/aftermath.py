"""What is there after a scenario, as the `History` that the promises are held against.

Comes in: a `Scene` whose turns have all ended. Goes out: records and timelines of the turns, what
the channels show and showed, rows, logs, exits, and what lies about in Redis.
"""

import asyncio
from collections.abc import AsyncIterator

from sqlalchemy import func, select

from ops.store.tables import error_logs
from shared.keys import Keys
from tests.support.fronts import Frame, paragraphs
from tests.support.house import House
from tests.support.promises import History, TurnStory
from tests.support.scene import KEY, MARK, Prompt, Scene

WITHOUT_TTL = (
    "out:",
    "dead",
    "failed",
    "totals",
    "wake",
    "errors",
    "buried",
    "processes",
    "alerts",
)
"""Keys that live on when all is quiet; none of them grows without a bound."""
LASTING = tuple(
    name
    for name, member in vars(Keys).items()
    if isinstance(member, property) and "no TTL" in (member.__doc__ or "")
)
"""What `shared.keys` says of itself that it has none."""


BUTTON_S = 45.0
"""How long a button may outlive its reply once all is quiet: where the bot was busy, it is asked
for again after 1, 3, 8, 18 and 38 s."""


async def history_of(scene: Scene) -> History:
    """What happened in a scenario, once all is quiet."""
    channels = list(dict.fromkeys(prompt.channel for prompt in scene.prompts))
    films = {channel: await scene.talk.film(channel) for channel in channels}
    return History(
        turns=[await _story(scene, prompt) for prompt in scene.prompts],
        moments=[
            line
            for channel in channels
            for line in _moments([p for p in scene.prompts if p.channel == channel], films[channel])
        ],
        peaks=scene.peaks,
        caps=dict.fromkeys(scene.peaks, scene.cap),
        left=[name async for name in left_over(scene.house)],
        exits=_exits(scene),
        recoveries_s=scene.recoveries_s,
        bound_s=scene.recovery_s,
        leaks=_leaks(scene),
        silences_s=[s for channel in channels for s in silences(films[channel])],
        silence_s=scene.silence_s,
        armed=await _armed(scene, channels),
    )


async def _armed(scene: Scene, channels: list[int]) -> list[str] | None:
    """Whose buttons to stop them are still there; they get a moment to go."""
    clock = asyncio.get_running_loop().time
    until_s = clock() + BUTTON_S
    while True:
        found = [await scene.talk.armed(channel) for channel in channels]
        if None in found:
            return None
        left = [turn_id for turn_ids in found for turn_id in turn_ids or ()]
        if not left or clock() >= until_s:
            return left
        await asyncio.sleep(0.05)


async def _story(scene: Scene, prompt: Prompt) -> TurnStory:
    records = scene.house.records
    record = await records.turn(prompt.turn_id)
    known = scene.known_texts(prompt.channel)
    story = TurnStory(
        turn_id=prompt.turn_id,
        lane=str(prompt.channel),
        expected=prompt.parts if prompt.is_echoed else (),
        moves=await records.timeline(prompt.turn_id),
        may_end=prompt.may_end,
        shown=await scene.texts(prompt) if prompt.is_echoed else None,
        beside=[
            text for text in paragraphs(await scene.talk.shown(prompt.channel)) if text not in known
        ],
    )
    if record is None:
        return story
    story.state, story.crashes = record.state, record.crashes
    story.cause = getattr(record.event, "cause", None)
    story.is_replayable = (
        not prompt.is_readable or await records.request(prompt.turn_id) is not None
    )
    story.rows = await rows_of(scene, prompt.turn_id, story.cause)
    return story


def _moments(prompts: list[Prompt], film: list[Frame]) -> list[str]:
    """For each prompt of a channel the first moment that showed a text twice or out of order."""
    places = {
        text: (prompt.turn_id, place)
        for prompt in prompts
        if prompt.is_echoed
        for place, text in enumerate(prompt.parts)
    }
    wrong: dict[str, str] = {}
    for frame in film:
        seen: dict[str, list[int]] = {}
        for text in paragraphs(frame.texts):
            if text in places:
                turn_id, place = places[text]
                seen.setdefault(turn_id, []).append(place)
        for turn_id, order in seen.items():
            if order != sorted(set(order)):
                wrong.setdefault(turn_id, f"{turn_id} showed its parts as {order}")
    return list(wrong.values())


async def rows_of(scene: Scene, turn_id: str, cause: str | None) -> int:
    """The rows of `error_logs` that tell of this failure."""
    words = select(func.count()).where(
        error_logs.c.turn_id == turn_id, error_logs.c.error_type == cause
    )
    async with scene.database.begin() as connection:
        return int((await connection.execute(words)).scalar_one())


def _exits(scene: Scene) -> list[str]:
    return [
        f"{process.name} exited with {code}"
        for process in scene.house.processes
        for code in process.unexpected[scene.exits_before.get(process.name, 0) :]
        if code not in scene.exits_may_be
    ]


def _leaks(scene: Scene) -> list[str]:
    return [
        f"{process.name} logged {word!r}"
        for process in scene.house.processes
        for word in (MARK, KEY)
        if word.encode() in scene.logged(process)
    ]


def silences(film: list[Frame]) -> list[float]:
    """From each prompt to the first sign after it, in seconds."""
    found: list[float] = []
    for place, frame in enumerate(film):
        if frame.word == "asked":
            signs = [later.at_ms for later in film[place:] if later.word != "asked"]
            if signs:
                found.append(max(0, signs[0] - frame.at_ms) / 1000)
    return found


async def left_over(house: House) -> AsyncIterator[str]:
    """What should be gone when all is quiet, and keys that would live for ever."""
    keys, redis = house.keys, house.redis
    states = [keys.leases, keys.ring, keys.depth]
    states += [keys.running_guilds, keys.running_keys, keys.running_lanes]
    for name in states:
        if await redis.exists(name):
            yield name
    for number in range(keys.partitions):
        if await redis.xlen(keys.out(number)):
            yield keys.out(number)
    kinds = ("lane:", "guild:", "parked:")
    lasting = {getattr(keys, name) for name in LASTING}
    async for key in redis.scan_iter("*"):
        name = key.decode()
        own = name.removeprefix(keys.prefix)
        if own.startswith(kinds) or name.startswith("arq:job:"):
            yield name
        elif (
            name not in lasting and not own.startswith(WITHOUT_TTL) and await redis.pttl(key) == -1
        ):
            yield f"{name} without an end of life"
