"""Choices by command: `/model`, `/persona`, `/settings`, `/context reset`, `/usage`.

Comes in: asks, acknowledged already. Goes out: choices of users, channels and servers, which hold
from the next prompt on, and texts about what holds and what was used.
"""

from collections.abc import Callable, Iterable
from types import MappingProxyType
from typing import Final

import msgspec

from gateway.asks import Answers, Ask, Caller
from gateway.interactions.keys import shown
from gateway.interactions.ports import Memory, Spendings, Vault
from shared.configuration.choices import (
    Choices,
    ChoicesPort,
    ChoicesStorePort,
    Scope,
)
from shared.configuration.schema import Budget, BudgetScope, Configuration
from shared.configuration.settling import NO_PERSONA, target_named
from shared.configuration.spending import NANOS, Account, Spent, share_of, span_of
from shared.i18n import Texts
from shared.sealed import CredentialRef
from shared.turns import CredentialSource

DEFAULT: Final = "default"
"""What somebody writes to choose nothing any more."""
MAX_LISTED: Final = 40
"""Names in one answer."""

SETTINGS: Final = MappingProxyType(
    {
        "show_thoughts": "bool",
        "details_hours": "float",
        "locale": "text",
        "delivery_mode": "text",
        "follow_up": "text",
        "speak": "text",
        "context": "text",
        "history_messages": "int",
        "instructions": "text",
    }
)
"""What `/settings` can change: fields of `Choices`, with how their values are read."""


class ChoiceDesk:
    """Changes and tells choices.

    Args:
        store: what was chosen.
        choices: what holds because of it.
        configuration: the file as it stands.
        vault: whose keys there are: a model of one's own needs a key of one's own.
        spendings: what budgets have spent.
        memory: what is remembered of channels.
        texts: the catalogs.
        now_ms: the time.
    """

    def __init__(
        self,
        store: ChoicesStorePort,
        choices: ChoicesPort,
        configuration: Callable[[], Configuration],
        vault: Vault,
        spendings: Spendings,
        memory: Memory,
        texts: Texts,
        now_ms: Callable[[], int],
    ) -> None:
        self._store = store
        self._choices = choices
        self._configuration = configuration
        self._vault = vault
        self._spendings = spendings
        self._memory = memory
        self._texts = texts
        self._now_ms = now_ms

    async def model(self, ask: Ask, answers: Answers) -> None:
        """`/model`: tells or changes the model."""
        caller, name = ask.caller, ask.values.get("name", "").strip()
        if not name:
            await self._tell_model(ask, answers)
            return
        scope, owner = scope_of(ask)
        configuration = self._configuration()
        target = target_named(configuration, name)
        is_known = name in configuration.routes or name in configuration.models
        if name != DEFAULT and target is None:
            await self._unknown(ask, answers, [*configuration.routes, *configuration.models])
            return
        if not may_choose(caller, scope):
            await self._say(ask, answers, "ask.forbidden")
            return
        # What the file names the operator pays for, where a server chose it. All else has its price
        # on the key of who wants it: else a member could choose the dearest model there is.
        needs_key = target is not None and (scope is Scope.USER or not is_known)
        if target and needs_key and not await self._has_key(caller, scope, target.provider):
            key = "ask.needs_own_key" if scope is Scope.USER else "ask.needs_server_key"
            await self._say(ask, answers, key, provider=shown(target.provider))
            return
        chosen = None if name == DEFAULT else name
        ref = str(_key_for(caller, scope, target.provider)) if target and needs_key else None
        await self._change(scope, owner, model=chosen, model_key=ref)
        key = "ask.model_default" if name == DEFAULT else "ask.model_chosen"
        await self._say(ask, answers, key, name=name)

    async def persona(self, ask: Ask, answers: Answers) -> None:
        """`/persona`: tells or changes who answers in a channel."""
        name = ask.values.get("name", "").strip()
        personas = self._configuration().personas
        if not name:
            settled = await self._choices.settle(ask.caller.place)
            shown = settled.persona.name if settled.persona else NO_PERSONA
            await self._say(ask, answers, "ask.persona_now", name=shown, names=listed(personas))
            return
        scope, owner = scope_of(ask, default=Scope.CHANNEL)
        if name not in (*personas, NO_PERSONA, DEFAULT):
            await self._unknown(ask, answers, list(personas))
        elif not may_choose(ask.caller, scope):
            await self._say(ask, answers, "ask.forbidden")
        else:
            await self._change(scope, owner, persona=None if name == DEFAULT else name)
            await self._say(ask, answers, "ask.persona_chosen", name=name)

    async def settings(self, ask: Ask, answers: Answers) -> None:
        """`/settings`: tells or changes what holds in a server or a channel; for its managers."""
        scope, owner = scope_of(ask, default=Scope.GUILD)
        # A person's would hold in every server: what its managers keep to themselves is theirs.
        if scope is Scope.USER or not may_choose(ask.caller, scope):
            await self._say(ask, answers, "ask.forbidden")
            return
        name, value = ask.values.get("name", "").strip(), ask.values.get("value", "").strip()
        if name and name not in SETTINGS:
            await self._unknown(ask, answers, list(SETTINGS))
        elif not value:
            await self._tell_settings(ask, answers, scope, owner)
        else:
            try:
                await self._change(scope, owner, **{name: None if value == DEFAULT else value})
            except msgspec.ValidationError:
                await self._say(ask, answers, "ask.bad_value", name=name)
            else:
                await self._say(ask, answers, "ask.setting_kept", name=name)

    async def reset(self, ask: Ask, answers: Answers) -> None:
        """`/context reset`: the model reads nothing of the channel that stands before this."""
        if not ask.caller.moderates:
            await self._say(ask, answers, "ask.forbidden")
            return
        await self._memory.start_over(ask.caller.channel_id, ask.interaction_id)
        await self._say(ask, answers, "ask.fresh")

    async def usage(self, ask: Ask, answers: Answers) -> None:
        """`/usage`: a person's budgets; for who manages it, the server's too."""
        caller = ask.caller
        accounts = accounts_of(self._configuration(), caller, self._now_ms())
        spent = await self._spendings.read(accounts)
        lines = [
            self._line(account, one, caller.locale)
            for account, one in zip(accounts, spent, strict=True)
        ]
        if not lines:
            await self._say(ask, answers, "ask.no_budget")
            return
        await answers.whisper("\n".join(lines))

    async def _has_key(self, caller: Caller, scope: Scope, provider: str) -> bool:
        """Whether who chooses a model has a key in use for it: the person, or the server."""
        if scope is Scope.USER and await self._vault.is_paused(caller.user_id):
            return False
        ref = _key_for(caller, scope, provider)
        return ref in [one.ref for one in await self._vault.of(((ref.scope, ref.owner_id),))]

    async def _tell_model(self, ask: Ask, answers: Answers) -> None:
        settled = await self._choices.settle(ask.caller.place)
        configuration = self._configuration()
        names = listed([*configuration.routes, *configuration.models])
        model = f"{settled.target.provider}/{settled.target.model}"
        await self._say(ask, answers, "ask.model_now", name=model, names=names)

    async def _tell_settings(self, ask: Ask, answers: Answers, scope: Scope, owner: int) -> None:
        chosen = await self._store.read(scope, owner)
        lines = [
            f"`{name}` = {DEFAULT if (value := getattr(chosen, name)) is None else value}"
            for name in SETTINGS
        ]
        head = self._texts.text("ask.settings_now", ask.caller.locale)
        await answers.whisper("\n".join([head, *lines])[:2000])

    async def _change(self, scope: Scope, owner: int, **values: str | None) -> None:
        """Writes a choice. Raises `msgspec.ValidationError` for a value that cannot be."""
        old = await self._store.read(scope, owner)
        chosen: dict[str, object] = {**msgspec.to_builtins(old), **values}
        known = {name: value for name, value in chosen.items() if value is not None}
        await self._store.write(scope, owner, msgspec.convert(known, Choices, strict=False))

    def _line(self, account: Account, spent: Spent, locale: str) -> str:
        """A budget in one line."""
        budget = account.budget
        whose = "ask.usage_server" if budget.scope is BudgetScope.GUILD else "ask.usage_me"
        return self._texts.text(
            whose,
            locale,
            span=account.span,
            used=self._amount(budget, spent, locale),
            share=f"{min(999, round(100 * share_of(budget, spent)))} %",
        )

    def _amount(self, budget: Budget, spent: Spent, locale: str) -> str:
        """What was used, against what may be."""
        parts = []
        if budget.cost is not None:
            parts.append(f"{spent.nanos / NANOS:.2f} / {budget.cost:.2f}")
        if budget.tokens is not None:
            tokens = f"{spent.tokens:,} / {budget.tokens:,}"
            parts.append(self._texts.text("ask.usage_tokens", locale, tokens=tokens))
        return ", ".join(parts)

    async def _unknown(self, ask: Ask, answers: Answers, names: list[str]) -> None:
        await self._say(ask, answers, "ask.unknown_name", names=listed(names))

    async def _say(self, ask: Ask, answers: Answers, key: str, **values: object) -> None:
        text = self._texts.text(key, ask.caller.locale, **values)
        await answers.whisper(text[:2000])


def _key_for(caller: Caller, scope: Scope, provider: str) -> CredentialRef:
    """The credential that a model runs on which somebody chooses: the person's, or the server's."""
    if scope is Scope.USER:
        owner, source = caller.user_id, CredentialSource.PERSONAL
    else:
        owner, source = caller.guild_id or 0, CredentialSource.SERVER
    return CredentialRef(scope=source, owner_id=owner, provider=provider)


def scope_of(ask: Ask, *, default: Scope = Scope.USER) -> tuple[Scope, int]:
    """For whom a choice is meant. In direct messages everything is the person's own."""
    caller = ask.caller
    word = ask.values.get("scope", "")
    scope = {"me": Scope.USER, "channel": Scope.CHANNEL, "server": Scope.GUILD}.get(word, default)
    if caller.guild_id is None or scope is Scope.USER:
        return Scope.USER, caller.user_id
    if scope is Scope.CHANNEL:
        return scope, caller.channel_id
    return Scope.GUILD, caller.guild_id


def may_choose(caller: Caller, scope: Scope) -> bool:
    """Everybody for himself, managers for channel and server."""
    return scope is Scope.USER or caller.manages_server


def accounts_of(configuration: Configuration, caller: Caller, now_ms: int) -> list[Account]:
    """The budgets that somebody may look at."""
    owners = {BudgetScope.USER: caller.user_id}
    if caller.guild_id is not None and caller.manages_server:
        owners[BudgetScope.GUILD] = caller.guild_id
    return [
        Account(budget=budget, owner=str(owner), span=span_of(budget.period, now_ms))
        for budget in configuration.budgets
        if (owner := owners.get(budget.scope)) is not None and budget.id in ("*", str(owner))
    ]


def listed(names: Iterable[str]) -> str:
    """Names for a sentence, so many that they fit."""
    found = [f"`{name}`" for name in list(names)[:MAX_LISTED]]
    return ", ".join(found) or "–"
