"""`turnfleet turns continue`: a reply that was cut off at its length goes on.

Comes in: the id of its turn. Goes out: a turn that is linked to it, delivered as a reply to the
same prompt.
"""

import asyncio
import time
from typing import Annotated

import typer

from ops.cli.exits import Exit, NotFound
from ops.cli.output import Output, OutputFormat, print_record
from ops.cli.session import fleet
from ops.cli.turn_replay import WAIT_S, end_of
from shared.edges.continuing import Continuations
from shared.turns import TAKEN, TurnState, next_generation


def continue_(
    turn_id: Annotated[str, typer.Argument(metavar="ID", help="A turn whose reply was cut off.")],
    wait: Annotated[bool, typer.Option(help="Wait until the new turn has ended.")] = False,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Goes on with a reply that reached its length limit, within a day, once.

    The model reads what it has said and goes on from there; the text follows in the channel, as a
    reply to the same prompt. Ends with 4 when nothing is kept of the turn, with 1 when it is not
    taken or, with --wait, when the new turn failed.
    """
    facts = asyncio.run(_go_on(turn_id, wait))
    print_record(facts, output)
    if facts["result"] not in ({TurnState.DONE} if wait else TAKEN):
        raise typer.Exit(Exit.FAILED)


async def _go_on(turn_id: str, wait: bool) -> dict[str, object]:
    async with fleet() as link:
        store = Continuations(link.redis, link.keys)
        answer = await store.go_on(turn_id, link.queue, time.time_ns() // 1_000_000)
        if answer is None:
            raise NotFound(
                f"{turn_id} has no reply that can go on: it was not cut off at its length, "
                "or that was more than a day ago"
            )
        new_id = next_generation(turn_id)
        facts: dict[str, object] = {"turn_id": turn_id, "new_id": new_id, "result": answer.value}
        if wait and answer in TAKEN:
            facts |= await end_of(link, new_id, time.monotonic() + WAIT_S)
        return facts
