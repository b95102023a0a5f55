"""A turn with tools over played ports: scripts of chat completions, and tools that remember.

Comes in: answers of the provider, tools. Goes out: what was asked, sent, told and run.
"""

import asyncio
import json
from collections.abc import Iterable
from typing import Any

from shared.errors import ToolError
from shared.segments import TurnDone, TurnFailed
from shared.tools import Tool, ToolContext
from shared.turns import TurnOutcome
from tests.support.turn_ports import (
    GENEROUS,
    KeepingReporter,
    RememberingOutbox,
    ScriptedProvider,
    ScriptedResponse,
    runner,
)
from tests.support.turns import turn
from worker.edges.tools import Toolbox
from worker.turn.ports import TimeLimits
from worker.turn.tool_rounds import ToolLimits

DONE = b"data: [DONE]\n\n"


def frame(finish: str | None = None, usage: dict[str, int] | None = None, **delta: object) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    body: dict[str, object] = {"id": "c1", "model": "m", "choices": [choice]}
    if usage is not None:
        body["usage"] = usage
    return b"data: " + json.dumps(body).encode() + b"\n\n"


def call(name: str, arguments: str = "{}", *, id: str = "c1", index: int = 0) -> dict[str, object]:
    function = {"name": name, "arguments": arguments}
    return {"index": index, "id": id, "type": "function", "function": function}


def calling(*calls: dict[str, object], say: str = "", **more: Any) -> ScriptedResponse:
    """An answer that calls tools, perhaps after some words."""
    words = [frame(content=say)] if say else []
    return ScriptedResponse(
        [*words, frame(tool_calls=list(calls)), frame("tool_calls", **more), DONE]
    )


def saying(text: str, **more: Any) -> ScriptedResponse:
    """An answer in words."""
    return ScriptedResponse([frame(content=text), frame("stop", **more), DONE])


class Tools:
    """Tools whose runs are remembered: `echo`, `slow`, `crash`, `refuse`, `long`, `count`.

    `count` may run twice without harm.
    """

    def __init__(self) -> None:
        self.ran: list[tuple[str, dict[str, object], ToolContext]] = []
        self.started = asyncio.Event()
        self.cancelled = 0
        self.running = 0
        self.most_at_once = 0

    def box(self, allowed: Iterable[str] = ("*",)) -> Toolbox:
        return Toolbox(
            [self._tool(name) for name in ("count", "crash", "echo", "long", "refuse", "slow")],
            {"*": tuple(allowed)},
        )

    def _tool(self, name: str) -> Tool:
        async def run(args: dict[str, object], context: ToolContext) -> object:
            self.ran.append((name, args, context))
            self.started.set()
            return await getattr(self, f"_{name}")(args)

        properties = {"text": {"type": "string"}, "n": {"type": "integer"}}
        schema = {"type": "object", "properties": properties, "additionalProperties": False}
        return Tool(
            name=name,
            description=f"Does {name}.",
            parameters=schema,
            run=run,
            repeatable=name == "count",
        )

    async def _echo(self, args: dict[str, object]) -> object:
        return args.get("text", "nothing")

    async def _count(self, args: dict[str, object]) -> object:
        self.running += 1
        self.most_at_once = max(self.most_at_once, self.running)
        # Later calls end sooner, so that the order of answers is not that of ends.
        for _ in range(10 - int(str(args["n"])) % 10):
            await asyncio.sleep(0)
        self.running -= 1
        return {"n": args["n"]}

    async def _crash(self, _args: dict[str, object]) -> object:
        raise ValueError("the password is hunter2")

    async def _refuse(self, _args: dict[str, object]) -> object:
        raise ToolError("rate_limited", 429)

    async def _long(self, _args: dict[str, object]) -> object:
        return "x" * 20_000

    async def _slow(self, _args: dict[str, object]) -> object:
        try:
            return await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise


class ToolCase:
    """One run and what it wrote."""

    def __init__(
        self,
        *answers: object,
        allowed: Iterable[str] = ("*",),
        limits: TimeLimits = GENEROUS,
        tool_limits: ToolLimits | None = None,
        may_supersede: bool = True,
        records_always: bool = False,
        **request: Any,
    ) -> None:
        self.tools = Tools()
        self.provider = ScriptedProvider(*answers)
        self.reporter = KeepingReporter()
        self.outbox = RememberingOutbox()
        self.stopped = asyncio.Event()
        self.request = turn(**request)
        self.runner = runner(
            self.provider,
            self.reporter,
            limits=limits,
            tools=self.tools.box(allowed),
            tool_limits=tool_limits or ToolLimits(),
            may_supersede=may_supersede,
            records_always=records_always,
        )

    async def run(self) -> TurnOutcome:
        return (await self.runner.run(self.request, self.outbox, self.stopped)).outcome

    @property
    def bodies(self) -> list[Any]:
        return [json.loads(request.body) for request in self.provider.requests]

    @property
    def results(self) -> list[str]:
        """What the model was told by the last request, call by call."""
        return [one["content"] for one in self.bodies[-1]["messages"] if one["role"] == "tool"]

    @property
    def end(self) -> TurnDone | TurnFailed:
        ((event, _),) = self.outbox.ends
        return event
