"""The way in for commands, buttons and forms: puts the desk together.

Comes in: the parts of a gateway, and the intake of a front. Goes out: a `Desk` for that front.
`gateway.app` composes it.
"""

import time
from collections.abc import Callable

import msgspec
from nacl.public import PublicKey

from gateway.edges.pace import Pace
from gateway.edges.people import SealingVault, StoredDetails, StoredMemory, StoredTurns
from gateway.intake import Intake
from gateway.interactions.asking import Asking
from gateway.interactions.choosing import ChoiceDesk
from gateway.interactions.desk import Desk
from gateway.interactions.details import DetailsDesk
from gateway.interactions.entrance import Entrance
from gateway.interactions.entries import entries
from gateway.interactions.keys import KeyDesk
from gateway.interactions.privacy import PrivacyDesk
from gateway.interactions.turns import TurnDesk
from shared.commands import PROVIDERS
from shared.config import Settings
from shared.configuration.loading import Loaded
from shared.edges.choices import ChoicesStore, LiveChoices
from shared.edges.credentials import CredentialStore, load_sealing_key
from shared.edges.queue import TurnQueue
from shared.edges.records import TurnRecords
from shared.edges.spending import Spending
from shared.i18n import Texts
from shared.sealed import public_key_of


class Inward(msgspec.Struct, frozen=True, kw_only=True):
    """What a desk is put together from."""

    queue: TurnQueue
    records: TurnRecords
    store: ChoicesStore
    choices: LiveChoices
    pace: Pace
    texts: Texts
    loaded: Callable[[], Loaded]

    def desk(self, intake: Intake) -> Desk:
        """The desk of a front; its questions go to that front's intake."""
        redis, keys, store, choices = self.queue.redis, self.queue.keys, self.store, self.choices
        turns = StoredTurns(self.queue, self.records)
        details = StoredDetails(self.queue, self.records)
        vault = SealingVault(CredentialStore(redis, keys), sealing_key(self.loaded().settings))
        memory = StoredMemory(self.queue)
        table = entries(
            asking=Asking(intake, details, self.texts),
            turns=TurnDesk(turns, Entrance(choices, self.pace), self.texts),
            details=DetailsDesk(details, choices, self.texts),
            keys=KeyDesk(vault, store, self._knows, self.texts, time.time, self._is_open),
            choices=ChoiceDesk(
                store,
                choices,
                lambda: self.loaded().configuration,
                vault,
                Spending(redis, keys),
                memory,
                self.texts,
                lambda: time.time_ns() // 1_000_000,
            ),
            privacy=PrivacyDesk(memory, vault, store, self.texts),
        )
        return Desk(table, self.texts)

    def _knows(self, provider: str) -> bool:
        """Whether a key can be for a provider: a well-known one, or one of the operator's file."""
        loaded = self.loaded()
        named = {*PROVIDERS, *loaded.configuration.providers, *loaded.settings.endpoints}
        return provider in named or provider == loaded.settings.provider

    def _is_open(self, provider: str) -> bool:
        """Whether a provider is an endpoint of the operator's own for which no key is named.

        A well-known vendor behind another address takes keys; what is asked there is the
        deployment's all the same (`shared.configuration.spending.payer_of`).
        """
        loaded = self.loaded()
        entry = loaded.configuration.providers.get(provider)
        has_keys = provider in PROVIDERS or (entry is not None and bool(entry.keys))
        return provider in loaded.settings.endpoints and not has_keys


def sealing_key(settings: Settings) -> PublicKey | None:
    """What boxes are closed with; None where nobody made one. Raises `ConfigError`."""
    if settings.sealing_key is not None:
        return public_key_of(settings.sealing_key)
    return load_sealing_key(settings)
