"""`/privacy forget`: what is kept of a person goes.

Comes in: an ask, acknowledged already. Goes out: erased records, and how many they were.
"""

from gateway.asks import Answers, Ask
from gateway.interactions.keys import actor_of
from gateway.interactions.ports import Memory, Vault
from shared.configuration.choices import Choices, ChoicesStorePort, Scope
from shared.i18n import Texts
from shared.turns import CredentialSource


class PrivacyDesk:
    """Forgets people.

    Args:
        memory: what is kept of them in the queue's store.
        vault: their keys.
        store: what they chose.
        texts: the catalogs.
    """

    def __init__(self, memory: Memory, vault: Vault, store: ChoicesStorePort, texts: Texts) -> None:
        self._memory = memory
        self._vault = vault
        self._store = store
        self._texts = texts

    async def forget(self, ask: Ask, answers: Answers) -> None:
        """Erases keys, choices, prompts and details of a person, once in a while."""
        user_id = ask.caller.user_id
        if not await self._memory.may_forget(user_id):
            await answers.whisper(self._texts.text("ask.forget_later", ask.caller.locale))
            return
        count = 0
        for kept in await self._vault.of(((CredentialSource.PERSONAL.value, user_id),)):
            count += await self._vault.revoke(kept.ref, actor_of(ask.caller))
        await self._store.write(Scope.USER, user_id, Choices())
        await self._vault.pause(user_id, is_paused=False)
        count += await self._memory.forget(user_id)
        await answers.whisper(self._texts.count("ask.forgotten", count, ask.caller.locale))
