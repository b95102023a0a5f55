"""Fitting a history and building its request: what a message costs, and that cost grows straight.

Run: `python -m benchmarks.bench_requests [--rounds 5] [--check]`. CPU time, medians of interleaved
rounds. Growth is the time for 800 messages over the time for 200 of the same kind, made to be
slow: 4 is straight, 16 a square.
"""

import argparse
import sys
from collections.abc import Callable

from benchmarks.measure import measure
from shared.messages import Message, Role, TextBlock, ThinkingBlock, ToolCallBlock
from shared.secrets import Secret
from shared.turns import Target
from worker.providers.building import build_request
from worker.providers.requests import Endpoint, ModelRequest

SMALL, LARGE = 200, 800
GROWTH_LIMIT = 5.0
"""Four and a quarter are measured; larger histories leave the processor's cache."""
ENDPOINT = Endpoint(base_url="https://provider.example/v1", key=Secret("k"))
TARGETS = (
    Target(provider="anthropic", model="claude-haiku-4-5"),
    Target(provider="openai", model="gpt-x"),
    Target(provider="google", model="gemini-3-pro"),
    Target(provider="mistral", model="m"),
    Target(provider="my-box", model="m"),
)


def spoken(number: int) -> list[Message]:
    """Users who all talk and are never answered: one run of one role."""
    return [Message(role=Role.USER, content=f"Number {number}: how are you?")]


def rounds_of_tools(number: int) -> list[Message]:
    """Rounds whose calls all have the same id, as local servers give them."""
    call = ToolCallBlock(id="call_0", name="roll", arguments={"n": number})
    thinking = ThinkingBlock(thinking="hm " * 20, thinking_signature="U0lH")
    return [
        Message(role=Role.USER, content="Roll."),
        Message(role=Role.ASSISTANT, content=[thinking, call]),
        Message(role=Role.TOOL, content=[TextBlock(text="6")], tool_call_id="call_0"),
    ]


def unanswered(number: int) -> list[Message]:
    """Calls of one id that nobody answers."""
    call = ToolCallBlock(id="call|0", name="roll", arguments={})
    return [Message(role=Role.ASSISTANT, content=[call])]


KINDS = (spoken, rounds_of_tools, unanswered)


def build(kind: Callable[[int], list[Message]], target: Target, size: int) -> Callable[[], object]:
    """One request over a history of `size` messages."""
    messages: list[Message] = []
    for number in range(size):
        messages.extend(kind(number))
    request = ModelRequest(target=target, messages=messages[:size], system="Be kind.")
    return lambda: build_request(request, ENDPOINT)


def main() -> int:
    """Prints cost and growth of each kind at each target."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--check", action="store_true", help="exit 1 beyond the limit of growth")
    options = parser.parse_args()
    print(f"{'history':<18}{'target':<12}{'us/message':>12}{'growth':>8}{'spread':>14}")
    worst = 0.0
    for kind in KINDS:
        for target in TARGETS:
            small, large = build(kind, target, SMALL), build(kind, target, LARGE)
            timings = measure({"small": small, "large": large}, options.rounds)
            growth = timings["large"].median / timings["small"].median
            worst = max(worst, growth)
            cost_us = timings["large"].median / LARGE * 1e6
            name = f"{kind.__name__:<18}{target.provider:<12}"
            print(f"{name}{cost_us:>12.1f}{growth:>8.2f}{timings['large'].spread:>14}")
    print(f"worst growth {worst:.2f}, limit {GROWTH_LIMIT}")
    return int(options.check and worst > GROWTH_LIMIT)


if __name__ == "__main__":
    sys.exit(main())
