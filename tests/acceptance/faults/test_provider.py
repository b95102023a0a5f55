"""Faults of providers: refusals, silence, broken streams. Each has its cause; none doubles text."""

import asyncio

import pytest

from shared.turns import TurnState
from tests.support.scene import Prompt, Scene
from tests.support.staging import Setting, fault

IMPATIENT = Setting(
    workers=2,
    gateways=1,
    settings=(("FIRST_BYTE_S", "2"), ("BETWEEN_CHUNKS_S", "2"), ("TURN_DEADLINE_S", "40")),
)
"""With time limits that a scenario can wait for."""

FAILURES = [
    ("rate_limit", "rate_limited"),
    ("server_error", "server_error"),
    ("overloaded", "overloaded"),
    ("invalid_key", "invalid_key"),
    ("early_error", None),
    ("stream_error", None),
    ("cut", "connection_lost"),
    ("cut_clean", "stream_truncated"),
    ("silent", "network_timeout"),
    ("stalled", "network_timeout"),
    ("stuck", "network_timeout"),
    ("context_overflow", "context_overflow"),
]
"""What the rehearsal provider plays, and the cause that the turn ends with."""


async def shown_once(scene: Scene, prompt: Prompt) -> None:
    """No text stands twice in the channel."""
    texts = await scene.talk.shown(prompt.channel)
    assert len(texts) == len(set(texts)), texts


@fault("F28", "F9", on=IMPATIENT)
@pytest.mark.parametrize(("model", "cause"), FAILURES)
async def test_a_provider_fails(scene: Scene, model: str, cause: str | None):
    """The provider answers with:"""
    prompt = await scene.admit(model)
    prompt.is_echoed = False
    prompt.may_end = frozenset({TurnState.FAILED})
    behind = await scene.admit("echo@200", channel=prompt.channel)
    await scene.until_state(behind, TurnState.DONE)  # the lane goes on, the slot is free
    record = await scene.house.records.turn(prompt.turn_id)
    assert record is not None
    if cause is not None:
        assert getattr(record.event, "cause", None) == cause
    await shown_once(scene, prompt)
    load = await scene.house.records.load()
    assert load.running == 0


@fault("F28", on=IMPATIENT)
async def test_a_provider_is_overloaded_for_a_moment(scene: Scene):
    """529 for the first try of each prompt: the second is answered, and nobody sees it."""
    prompts = [await scene.admit("flaky", text=f"question {n}") for n in range(8)]
    for prompt in prompts:
        prompt.is_echoed = False
    await scene.quiet()
    for prompt in prompts:
        await shown_once(scene, prompt)


@fault("F29", "R13", on=IMPATIENT)
@pytest.mark.parametrize("model", ["cut", "cut_clean", "stream_error", "stalled", "server_error"])
async def test_a_fallback_answers(scene: Scene, model: str):
    """A further model is configured; the first one breaks, most after text was shown, by:"""
    prompts = [await scene.admit(model, fallbacks=("echo@60",)) for _ in range(4)]
    await scene.quiet()
    for prompt in prompts:
        assert await scene.texts(prompt) == list(prompt.parts)


@fault("F28", on=IMPATIENT)
async def test_a_provider_says_nothing(scene: Scene):
    """The provider ends its answer without a word: the user is told so."""
    prompt = await scene.admit("empty")
    prompt.is_echoed = False
    await scene.until_state(prompt, TurnState.DONE)
    await scene.quiet()
    assert len(await scene.talk.shown(prompt.channel)) == 1


@fault("F9", on=IMPATIENT)
async def test_silence_of_many_frees_every_slot(scene: Scene):
    """Thirty streams fall silent at once: all slots are free again within the time limits."""
    channels = [await scene.channel(guild) for guild in range(30)]
    for channel in channels:
        prompt = await scene.admit("silent", channel=channel)
        prompt.may_end = frozenset({TurnState.FAILED})
        prompt.is_echoed = False
    await asyncio.sleep(2)
    await scene.quiet()
    load = await scene.house.records.load()
    assert load.load == 0
