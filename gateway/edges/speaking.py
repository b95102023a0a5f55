"""What holds for prompts, while the front learns in which channels every message is one.

Comes in: places of prompts. Goes out: what holds there; to the front, how the bot listens in the
channel. `gateway.app` puts it before the intake of a front whose events may find no room.
"""

from typing import Protocol

from shared.configuration.choices import ChoicesPort, Place, Settled, Speak


class Listener(Protocol):
    """A front that drops talk before prompts."""

    def note_speak(self, channel_id: int, *, is_always: bool) -> None:
        """Notes whether every message of a channel is a prompt, as it held for the last one."""
        ...


class ToldChoices:
    """The port `shared.configuration.choices.ChoicesPort` over another one.

    Args:
        choices: knows what holds.
        listener: is told.
    """

    def __init__(self, choices: ChoicesPort, listener: Listener) -> None:
        self._choices = choices
        self._listener = listener

    async def settle(self, place: Place, turn_id: str = "") -> Settled:
        """What holds for a prompt; raises as the other one does."""
        settled = await self._choices.settle(place, turn_id)
        self._listener.note_speak(place.channel_id, is_always=settled.speak is Speak.ALWAYS)
        return settled
