"""What interactions need of the world, as protocols.

Comes in: nothing. Goes out: the ports that `gateway.edges` fulfils. Every call may raise
`StoreUnavailable` or `StoreFull`; the desk then tells the person to try again.
"""

from typing import Protocol

from gateway.asks import Again, Kept, KeptTable, Subject, TurnSeen
from gateway.front import Prompt
from shared.configuration.spending import Account, Spent
from shared.failures import FaultDetails
from shared.sealed import CredentialRef
from shared.secrets import Secret
from shared.thoughts import KeptThoughts


class Turns(Protocol):
    """The turns of the cell."""

    async def look(self, turn_id: str) -> TurnSeen | None:
        """A turn; None when nothing is known of it any more."""
        ...

    async def recent(self, channel_id: int) -> list[TurnSeen]:
        """The latest turns of a channel that are still known, the newest first."""
        ...

    async def stop(self, turn_id: str) -> bool:
        """Stops a turn; False when it was over."""
        ...

    async def retry(self, turn_id: str) -> Again:
        """Runs a failed turn once more, once, however often it is asked."""
        ...

    async def go_on(self, turn_id: str) -> Again:
        """Goes on with a reply that was cut off at its length, once, however often it is asked."""
        ...


class Prompts(Protocol):
    """Where prompts go: intake."""

    async def take(self, prompt: Prompt) -> str | None:
        """Takes a prompt, however long Redis is away; a notice's key where it becomes no turn."""
        ...


class Details(Protocol):
    """What lies behind buttons, for a while."""

    async def fault(self, report_id: str) -> FaultDetails | None:
        """The redacted details of a failure."""
        ...

    async def thoughts(self, turn_id: str) -> KeptThoughts | None:
        """What the model thought before its reply."""
        ...

    async def source(self, name: str) -> KeptTable | None:
        """The source of a drawn table; None when it has expired."""
        ...

    async def keep_subject(self, interaction_id: int, subject: Subject) -> None:
        """Keeps a message while its question is being written."""
        ...

    async def subject(self, interaction_id: int) -> Subject | None:
        """That message, for a quarter of an hour."""
        ...


class Vault(Protocol):
    """Credentials: they go in, and never come out."""

    @property
    def takes_keys(self) -> bool:
        """Whether there is a sealing key to close boxes with."""
        ...

    async def put(self, ref: CredentialRef, key: Secret, endpoint: str, actor: str) -> str:
        """Seals and stores a key in the place of any other; gives the id that lists show.

        Raises:
            CredentialError: it is no key, or somebody else changed it at the same moment.
        """
        ...

    async def revoke(self, ref: CredentialRef, actor: str) -> bool:
        """Takes a credential back; False when there was none."""
        ...

    async def of(self, refs_of: tuple[tuple[str, int], ...]) -> list[Kept]:
        """What owners have, as (scope, id)."""
        ...

    async def pause(self, user_id: int, *, is_paused: bool) -> None:
        """Leaves a person's own keys unused, or uses them again."""
        ...

    async def is_paused(self, user_id: int) -> bool:
        """Whether a person's own keys are left unused."""
        ...


class Spendings(Protocol):
    """What budgets have spent."""

    async def read(self, accounts: list[Account]) -> list[Spent]:
        """What each account has."""
        ...


class Memory(Protocol):
    """What the bot remembers of channels and people."""

    async def start_over(self, channel_id: int, at_id: int) -> None:
        """Lets the model read nothing of a channel that stands before this message."""
        ...

    async def may_forget(self, user_id: int) -> bool:
        """Whether somebody may be forgotten now; `forget` must follow."""
        ...

    async def forget(self, user_id: int) -> int:
        """Erases what is kept of a person; says how many things that were."""
        ...
