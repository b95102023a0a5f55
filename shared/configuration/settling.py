"""What holds for one prompt, from the file and from what guilds, channels and users chose.

Comes in: a `Configuration`, the deployment's own target, layers of `Choices`, a place. Goes out:
`Settled`. Pure; `shared.edges.choices` and `turnfleet config show` import it.

A name that a guild chose and that the file no longer has is passed over, not an error: the bot
answers with what is more general, and `unknown_names` tells whoever looks.
"""

from collections.abc import Sequence
from typing import Final, TypeVar
from zlib import crc32

import msgspec

from shared.configuration.choices import (
    Access,
    Choices,
    Persona,
    Settled,
    Speak,
    merged,
)
from shared.configuration.schema import Canary, Configuration, ModelEntry
from shared.history import Context
from shared.segments import DeliveryMode
from shared.turns import FollowUp, Sampling, Target

T = TypeVar("T")

NO_PERSONA: Final = "none"
"""What a guild chooses to have no persona although the deployment has one."""
DICE: Final = 10_000
"""Faces of the canary's dice: a share is as fine as a hundredth of a percent."""


class Basis(msgspec.Struct, frozen=True, kw_only=True):
    """What the deployment answers with where nobody chose anything."""

    target: Target
    delivery_mode: DeliveryMode = DeliveryMode.PARAGRAPH
    follow_up: FollowUp = FollowUp.QUEUE
    is_target_forced: bool = False
    """The environment names the model, and wins over `[defaults] model`."""


class _Route(msgspec.Struct, frozen=True, kw_only=True):
    chain: tuple[ModelEntry, ...]
    canary: Canary | None = None


def settle(
    configuration: Configuration, basis: Basis, layers: Sequence[Choices], turn_id: str = ""
) -> Settled:
    """What holds.

    Args:
        configuration: the file.
        basis: where neither file nor layers say anything.
        layers: what guild, parent channel, channel and user chose, the general first.
        turn_id: throws the canary: the same turn, the same side.
    """
    first = configuration.defaults
    if basis.is_target_forced:
        first = msgspec.structs.replace(first, model=None)
    chosen = merged([first, *layers])
    persona_id, persona = _persona_of(configuration, chosen)
    own = Choices()
    if persona is not None:
        own = Choices(
            model=persona.model, locale=persona.locale, delivery_mode=persona.delivery_mode
        )
    names = [layer.model for layer in reversed([first, own, *layers]) if layer.model]
    route = next((found for name in names if (found := _route_of(configuration, name))), None)
    chain = _chain(configuration, route, turn_id)
    effective = merged([first, own, *layers])
    lists = (configuration.access, *(one.access for one in (first, *layers)))
    return Settled(
        target=_target(chain[0]) if chain else basis.target,
        fallbacks=tuple(_target(entry) for entry in chain[1:]),
        sampling=_sampling(chain[0]) if chain else Sampling(),
        system=_system(persona, chosen.instructions),
        persona_id=persona_id,
        persona=persona,
        locale=effective.locale,
        delivery_mode=effective.delivery_mode or basis.delivery_mode,
        follow_up=effective.follow_up or basis.follow_up,
        lane=effective.lane,
        speak=effective.speak or Speak.MENTION,
        tools=effective.tools,
        context=effective.context or Context.CHANNEL,
        history_messages=_or(effective.history_messages, 30),
        details_hours=_or(effective.details_hours, 24.0),
        show_thoughts=bool(effective.show_thoughts),
        subscribed=bool(effective.subscribed),
        access=tuple(one for one in lists if one is not None and one != Access()),
    )


def target_named(configuration: Configuration, name: str) -> Target | None:
    """The first target behind a name of a route or a model, or `provider/model`."""
    route = _route_of(configuration, name)
    return None if route is None else _target(route.chain[0])


def unknown_names(configuration: Configuration, choices: Choices) -> list[str]:
    """What a layer names and the file does not have, as `field "name"`."""
    found = []
    if choices.model and _route_of(configuration, choices.model) is None:
        found.append(f'model "{choices.model}"')
    known = {*configuration.personas, NO_PERSONA}
    if choices.persona and choices.persona not in known:
        found.append(f'persona "{choices.persona}"')
    return found


def entry_of(configuration: Configuration, target: Target) -> ModelEntry | None:
    """What the file says about a target: the entry of the same provider and model."""
    return next(
        (
            entry
            for entry in configuration.models.values()
            if (entry.provider, entry.model) == (target.provider, target.model)
        ),
        None,
    )


def _route_of(configuration: Configuration, name: str) -> _Route | None:
    if (route := configuration.routes.get(name)) is not None:
        entries = [configuration.models[one] for one in route.models]
        return _Route(chain=tuple(entries), canary=route.canary)
    if (entry := configuration.models.get(name)) is not None:
        return _Route(chain=(entry,))
    provider, slash, model = name.partition("/")
    if not (slash and provider and model):
        return None
    known = entry_of(configuration, Target(provider=provider, model=model))
    return _Route(chain=(known or ModelEntry(provider=provider, model=model),))


def _chain(
    configuration: Configuration, route: _Route | None, turn_id: str
) -> tuple[ModelEntry, ...]:
    if route is None:
        return ()
    if route.canary is None or not is_canary(route.canary.share, turn_id):
        return route.chain
    return (configuration.models[route.canary.model], *route.chain)


def is_canary(share: float, turn_id: str) -> bool:
    """Whether a turn is among the share. A replay (`.2`) lands on its original's side.

    >>> is_canary(0.0, "m7"), is_canary(1.0, "m7")
    (False, True)
    """
    return crc32(turn_id.partition(".")[0].encode()) % DICE < share * DICE


def _persona_of(configuration: Configuration, chosen: Choices) -> tuple[str | None, Persona | None]:
    names = [chosen.persona, configuration.defaults.persona]
    for name in names:
        if name == NO_PERSONA:
            return None, None
        if name is not None and name in configuration.personas:
            return name, configuration.personas[name]
    return None, None


def _system(persona: Persona | None, instructions: str | None) -> str | None:
    parts = [persona.system if persona is not None else "", instructions or ""]
    return "\n\n".join(part for part in parts if part) or None


def _target(entry: ModelEntry) -> Target:
    return Target(api=entry.api, provider=entry.provider, model=entry.model)


def _sampling(entry: ModelEntry) -> Sampling:
    return Sampling(
        max_tokens=entry.max_tokens,
        temperature=entry.temperature,
        top_p=entry.top_p,
        thinking=entry.thinking,
    )


def _or(value: T | None, default: T) -> T:
    return default if value is None else value
