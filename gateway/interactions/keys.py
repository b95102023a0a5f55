"""Keys that people bring: `/key`.

Comes in: asks, and forms with a key in them. Goes out: sealed boxes. A key is closed the moment it
arrives, with the public half of a pair whose other half no gateway has; nothing here, and nobody
who takes over the gateway later, can read it back. It is in no log, no text and no custom id.
"""

from collections.abc import Callable
from typing import Final
from urllib.parse import urlsplit

import msgspec

from gateway.asks import Answers, Ask, Caller, Field, Form
from gateway.interactions.ports import Vault
from shared.configuration.choices import ChoicesStorePort, Scope
from shared.errors import CredentialError
from shared.i18n import Texts
from shared.sealed import MAX_KEY_CHARS, CredentialRef
from shared.secrets import Secret
from shared.turns import CredentialSource

FORM_S: Final = 15 * 60.0
"""How long a window may stay open: as long as Discord's tokens; a key that comes later is thrown
away unread, for nobody knows any more what was asked."""
KEY: Final = "key"
ENDPOINT: Final = "endpoint"
PROVIDER: Final = "provider"
SCOPE: Final = "scope"
SERVER: Final = "server"
MAX_ENDPOINT_CHARS: Final = 200


class KeyDesk:
    """Takes keys.

    Args:
        vault: where boxes are kept.
        store: what people chose: a model of one's own goes with the key that it ran on.
        knows: whether a provider is one that a key can be for.
        texts: the catalogs.
        now_s: seconds since the epoch.
        is_open: whether a provider is an endpoint of the operator's own that asks for no key.
    """

    def __init__(
        self,
        vault: Vault,
        store: ChoicesStorePort,
        knows: Callable[[str], bool],
        texts: Texts,
        now_s: Callable[[], float],
        is_open: Callable[[str], bool] = lambda _: False,
    ) -> None:
        self._is_open = is_open
        self._vault = vault
        self._store = store
        self._knows = knows
        self._texts = texts
        self._now_s = now_s

    async def open(self, ask: Ask, answers: Answers) -> None:
        """`/key set`: opens the window. It asks nothing of Redis and answers at once."""
        locale, scope = ask.caller.locale, scope_of(ask)
        provider = ask.values.get(PROVIDER, "").strip().lower()
        refusal = self._refusal(ask.caller, scope, provider)
        if refusal is not None:
            await answers.whisper(self._texts.text(refusal, locale, provider=shown(provider)))
            return
        title = "form.key_server" if scope is CredentialSource.SERVER else "form.key_me"
        form = Form(
            custom_id=f"{KEY}:{scope.value}:{provider}:{int(self._now_s())}",
            title=self._texts.text(title, locale),
            text=self._texts.text("form.key_promise", locale),
            fields=(
                Field(
                    key=KEY,
                    label=self._texts.text("form.key", locale),
                    max_chars=min(MAX_KEY_CHARS, 4000),
                ),
                Field(
                    key=ENDPOINT,
                    label=self._texts.text("form.endpoint", locale),
                    placeholder="https://",
                    is_required=False,
                    max_chars=MAX_ENDPOINT_CHARS,
                ),
            ),
        )
        await answers.form(form)

    async def sent(self, ask: Ask, answers: Answers) -> None:
        """The window came back. Its custom id is only a claim: every right is asked for again."""
        locale = ask.caller.locale
        scope, provider, opened_s = claim_of(ask.argument)
        is_late = not 0 <= self._now_s() - opened_s <= FORM_S
        refusal = "form.expired" if is_late else self._refusal(ask.caller, scope, provider)
        endpoint = ask.values.get(ENDPOINT, "").strip()
        if refusal is None and endpoint and not is_address(endpoint):
            refusal = "ask.bad_endpoint"
        elif refusal is None and not endpoint and self._is_open(provider):
            # A key that nobody looks at would only say that somebody else pays.
            refusal = "ask.key_not_needed"
        if refusal is not None:
            await answers.whisper(self._texts.text(refusal, locale, provider=shown(provider)))
            return
        ref = ref_of(ask.caller, scope, provider)
        key = Secret(ask.values.get(KEY, "").strip())
        try:
            key_id = await self._vault.put(ref, key, endpoint, actor_of(ask.caller))
        except CredentialError:
            await answers.whisper(self._texts.text("ask.bad_key", locale))
            return
        said = "ask.key_kept_server" if scope is CredentialSource.SERVER else "ask.key_kept"
        await answers.whisper(self._texts.text(said, locale, provider=provider, key_id=key_id))

    async def remove(self, ask: Ask, answers: Answers) -> None:
        """`/key remove`."""
        scope, locale = scope_of(ask), ask.caller.locale
        provider = ask.values.get(PROVIDER, "").strip().lower()
        if scope is CredentialSource.SERVER and not may_keep_for_server(ask.caller):
            await answers.whisper(self._texts.text("ask.forbidden", locale))
            return
        try:
            ref = CredentialRef.parsed(str(ref_of(ask.caller, scope, provider)))
        except CredentialError:
            was_there = False
        else:
            was_there = await self._vault.revoke(ref, actor_of(ask.caller))
            await self._drop_models(ref, ask.caller)
        said = "ask.key_removed" if was_there else "ask.no_key"
        await answers.whisper(self._texts.text(said, locale, provider=shown(provider)))

    async def use(self, ask: Ask, answers: Answers) -> None:
        """`/key use`: leaves the person's own keys unused, or uses them again."""
        is_paused = ask.values.get("own") == "off"
        await self._vault.pause(ask.caller.user_id, is_paused=is_paused)
        if is_paused:
            await self._drop_model(Scope.USER, ask.caller.user_id, "")
        said = "ask.key_off" if is_paused else "ask.key_on"
        await answers.whisper(self._texts.text(said, ask.caller.locale))

    async def list(self, ask: Ask, answers: Answers) -> None:
        """`/key list`: which keys there are, by their ids; for who manages it, the server's too."""
        caller, locale = ask.caller, ask.caller.locale
        owners = [(CredentialSource.PERSONAL.value, caller.user_id)]
        if caller.guild_id is not None and may_keep_for_server(caller):
            owners.append((CredentialSource.SERVER.value, caller.guild_id))
        lines = [
            self._texts.text(
                "ask.key_line_server"
                if one.ref.scope is CredentialSource.SERVER
                else "ask.key_line",
                locale,
                provider=one.ref.provider,
                key_id=one.key_id,
            )
            for one in await self._vault.of(tuple(owners))
        ]
        if lines and await self._vault.is_paused(caller.user_id):
            lines.append(self._texts.text("ask.key_off", locale))
        await answers.whisper("\n".join(lines) or self._texts.text("ask.no_keys", locale))

    async def _drop_models(self, ref: CredentialRef, caller: Caller) -> None:
        """Takes back the models that ran on a key, which others would pay for without it.

        A person's own all run on keys. A server's do where the file has no name for them.
        """
        if ref.scope is CredentialSource.PERSONAL:
            await self._drop_model(Scope.USER, ref.owner_id, "")
            return
        # Which channels a server has is not kept: those are reached where the command is given.
        await self._drop_model(Scope.GUILD, ref.owner_id, f"{ref.provider}/")
        for channel_id in filter(None, (caller.channel_id, caller.parent_id)):
            await self._drop_model(Scope.CHANNEL, channel_id, f"{ref.provider}/")

    async def _drop_model(self, scope: Scope, owner: int, prefix: str) -> None:
        """Takes a chosen model back whose name begins like this."""
        chosen = await self._store.read(scope, owner)
        if chosen.model is not None and chosen.model.startswith(prefix):
            kept = msgspec.structs.replace(chosen, model=None)
            await self._store.write(scope, owner, kept)

    def _refusal(self, caller: Caller, scope: CredentialSource, provider: str) -> str | None:
        if not self._vault.takes_keys:
            return "ask.no_vault"
        if scope is CredentialSource.SERVER and not may_keep_for_server(caller):
            return "ask.forbidden"
        return None if self._knows(provider) else "ask.unknown_provider"


def scope_of(ask: Ask) -> CredentialSource:
    """Whose key is meant: the person's own unless the server's is asked for."""
    is_server = ask.values.get(SCOPE) == SERVER
    return CredentialSource.SERVER if is_server else CredentialSource.PERSONAL


def claim_of(argument: str) -> tuple[CredentialSource, str, float]:
    """What a form's custom id claims; nonsense claims a personal key of no provider, long ago."""
    scope, _, rest = argument.partition(":")
    provider, _, opened = rest.partition(":")
    is_server = scope == CredentialSource.SERVER
    source = CredentialSource.SERVER if is_server else CredentialSource.PERSONAL
    return source, provider, float(opened) if opened.isdecimal() else 0.0


def ref_of(caller: Caller, scope: CredentialSource, provider: str) -> CredentialRef:
    """The reference of a key that this person may keep; the owner is never taken from a form."""
    owner = caller.guild_id if scope is CredentialSource.SERVER else caller.user_id
    return CredentialRef(scope=scope, owner_id=owner or 0, provider=provider)


def may_keep_for_server(caller: Caller) -> bool:
    """Whether this person may bring the server's key: in direct messages there is no server."""
    return caller.guild_id is not None and caller.manages_server


def is_address(text: str) -> bool:
    """Whether a text may be an endpoint's address. The worker's guard judges where it leads."""
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        return False
    is_plain = text.isascii() and text.isprintable() and parts.username is None
    return parts.scheme == "https" and bool(parts.hostname) and port != 0 and is_plain


def actor_of(caller: Caller) -> str:
    """Who did it, for the trail of changes."""
    return f"discord:{caller.user_id}"


def shown(provider: str) -> str:
    """A name that somebody typed, as it may be said back."""
    return provider if provider.isascii() and provider.isalnum() else "?"
