"""What no type can say: names that must be known, bounds that belong together.

Comes in: a `Configuration` whose types are right. Goes out: findings by path. Pure; `reading`
imports it. A check is one function of `CHECKS`.
"""

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final
from urllib.parse import urlsplit

import msgspec

from shared.config import Settings, settings_from
from shared.configuration.output import OutputAction, complaint
from shared.configuration.positions import Path
from shared.configuration.schema import BudgetScope, Configuration
from shared.configuration.settling import NO_PERSONA
from shared.errors import SettingError
from shared.secret_settings import SECRETS, secrets_in

ELSEWHERE: Final = {
    "endpoints": "write base_url in [providers.NAME]",
    "guild_depth": "write it in [limits]",
    "global_depth": "write it in [limits]",
    "config": "set TURNFLEET_CONFIG; a file cannot name itself",
}
"""Settings of the environment that have another place in the file."""
MAX_NAME_CHARS: Final = 80
BAD_PERSONA_NAMES: Final = ("clyde", "discord")
"""Discord refuses webhooks with these in their names (developer docs, resources/webhook)."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """Something wrong at a path; `of_key` points at the key instead of the value."""

    path: Path
    what: str
    deed: str
    of_key: bool = False


def findings(configuration: Configuration) -> list[Finding]:
    """Everything that is wrong in a configuration of the right types."""
    return [found for check in CHECKS for found in check(configuration)]


def _deployment(configuration: Configuration) -> Iterator[Finding]:
    known = Settings.__struct_fields__
    for name, value in configuration.deployment.items():
        path = ("deployment", name)
        if name in SECRETS or secrets_in(name, value):
            # The file is shown, copied, committed, and kept in Redis for `config diff`.
            what, deed = "a secret does not stand here", _elsewhere(name, value)
            yield Finding(path=path, what=what, deed=deed, of_key=True)
        elif name in ELSEWHERE:
            yield Finding(
                path=path, what="its place is elsewhere", deed=ELSEWHERE[name], of_key=True
            )
        elif name not in known:
            yield _unknown(path, "setting", name, known, of_key=True)
        else:
            try:
                settings_from({name: value})
            except SettingError as exc:
                yield Finding(path=path, what=exc.what, deed=exc.deed)


def _elsewhere(name: str, value: object) -> str:
    """Where a secret goes that stands in the file."""
    variable = f"TURNFLEET_{name.upper()}"
    form = ", the whole table as JSON" if isinstance(value, Mapping) else ""
    return (
        f"take it out, and set {variable} in the environment{form}, "
        f"or as a file {variable} in TURNFLEET_SECRETS_DIR"
    )


def _routes(configuration: Configuration) -> Iterator[Finding]:
    for name, route in configuration.routes.items():
        here: Path = ("routes", name)
        if name in configuration.models:
            deed = "rename one of them: people name both in the same place"
            yield Finding(path=here, what="a model has this name too", deed=deed, of_key=True)
        seen: set[str] = set()
        for at, model in enumerate(route.models):
            path = (*here, "models", at)
            if model not in configuration.models:
                yield _unknown(path, "model", model, configuration.models)
            elif model in seen:
                deed = "name each model once; a failed one is not asked again"
                yield Finding(path=path, what=f'"{model}" stands here twice', deed=deed)
            seen.add(model)
        if route.canary is not None and route.canary.model not in configuration.models:
            path = (*here, "canary", "model")
            yield _unknown(path, "model", route.canary.model, configuration.models)


def _names(configuration: Configuration) -> Iterator[Finding]:
    """`[defaults]` and personas name what there is."""
    default = configuration.defaults
    if default.persona not in {None, NO_PERSONA, *configuration.personas}:
        path: Path = ("defaults", "persona")
        yield _unknown(path, "persona", str(default.persona), configuration.personas)
    places: list[tuple[Path, str | None]] = [(("defaults", "model"), default.model)]
    places += [
        (("personas", name, "model"), one.model) for name, one in configuration.personas.items()
    ]
    known = [*configuration.routes, *configuration.models]
    for place, model in places:
        if model is not None and "/" not in model and model not in known:
            yield _unknown(place, "route or model", model, known)


def _persona_names(configuration: Configuration) -> Iterator[Finding]:
    for name, persona in configuration.personas.items():
        bad = next((word for word in BAD_PERSONA_NAMES if word in persona.name.lower()), None)
        if bad is not None:
            yield Finding(
                path=("personas", name, "name"),
                what=f'Discord refuses names with "{bad}"',
                deed="choose another name",
            )
        if name == NO_PERSONA:
            yield Finding(
                path=("personas", name),
                what=f'"{NO_PERSONA}" is the word for no persona',
                deed="choose another name",
                of_key=True,
            )


def _models(configuration: Configuration) -> Iterator[Finding]:
    for name, model in configuration.models.items():
        if len(name) > MAX_NAME_CHARS or "/" in name:
            yield Finding(
                path=("models", name),
                what="a model's name has at most 80 characters and no slash",
                deed="choose a short name; the vendor's id stands in `model`",
                of_key=True,
            )
        if model.context_tokens is not None and model.max_tokens >= model.context_tokens:
            yield Finding(
                path=("models", name, "max_tokens"),
                what=f"an answer of {model.max_tokens} tokens leaves no room for a question",
                deed=f"use less than context_tokens ({model.context_tokens})",
            )


def _budgets(configuration: Configuration) -> Iterator[Finding]:
    for at, budget in enumerate(configuration.budgets):
        path: Path = ("budgets", at)
        if budget.cost is None and budget.tokens is None:
            deed = "add `cost` or `tokens`"
            yield Finding(path=path, what="it bounds nothing", deed=deed, of_key=True)
        if budget.scope is BudgetScope.ALL and budget.id != "*":
            yield Finding(
                path=(*path, "id"), what="there is only one of `all`", deed="leave `id` out"
            )
        is_number = budget.scope in {BudgetScope.GUILD, BudgetScope.USER}
        if is_number and budget.id != "*" and not budget.id.isdecimal():
            deed = 'write the number from Discord in quotes, or "*" for each'
            yield Finding(path=(*path, "id"), what="this is no id", deed=deed)
        known = {"*", *configuration.models}
        if budget.scope is BudgetScope.MODEL and budget.id not in known:
            yield _unknown((*path, "id"), "model", budget.id, configuration.models)


def _prices(configuration: Configuration) -> Iterator[Finding]:
    """A budget in money needs prices: a cost that nobody knows stops nothing."""
    if any(budget.cost is not None for budget in configuration.budgets):
        free = ("rehearsal", "openrouter")  # they report the cost of each answer
        for name, model in configuration.models.items():
            if model.price is None and model.provider not in free:
                yield Finding(
                    path=("models", name),
                    what="a budget counts money, and this model has no price",
                    deed=f"add [models.{name}.price], or bound tokens instead",
                    of_key=True,
                )


def _lengths(configuration: Configuration) -> Iterator[Finding]:
    for name in configuration.providers:
        if len(name) > MAX_NAME_CHARS or not name.replace("-", "").replace("_", "").isalnum():
            yield Finding(
                path=("providers", name),
                what="a provider's name has letters, digits, - and _",
                deed="choose another name",
                of_key=True,
            )


def suggestion(name: str, known: Iterable[str]) -> str:
    """What to write instead of a name that is none; nothing where nothing is known."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1)
    if near:
        return f'did you mean "{near[0]}"?'
    return f"use one of {', '.join(names)}" if names else ""


def _unknown(
    path: Path, noun: str, name: str, known: Iterable[str], *, of_key: bool = False
) -> Finding:
    deed = suggestion(name, known) or f"add a {noun} first"
    return Finding(path=path, what=f'there is no {noun} "{name}"', deed=deed, of_key=of_key)


def _addresses(configuration: Configuration) -> Iterator[Finding]:
    for name, provider in configuration.providers.items():
        try:
            parts = urlsplit(provider.base_url or "https://host")
            is_readable = bool(parts.hostname) and parts.port != 0
            is_plain = not parts.username and not parts.query
        except ValueError:
            is_readable = is_plain = False
        if not (is_readable and is_plain):
            yield Finding(
                path=("providers", name, "base_url"),
                what="this address cannot be read, or has a name, a password or a query",
                deed="write an address such as https://host/v1; keys stand in `keys`",
            )


def _output_rules(configuration: Configuration) -> Iterator[Finding]:
    names: set[str] = set()
    for at, rule in enumerate(configuration.output_rules):
        path: Path = ("output_rules", at)
        if (what := complaint(rule)) is not None:
            deed = "try it out; a backslash is written twice, or the text in single quotes"
            yield Finding(path=(*path, "pattern"), what=what, deed=deed)
        if rule.name in names:
            deed = "name each rule once: alerts and logs call it so"
            yield Finding(path=(*path, "name"), what=f'"{rule.name}" stands here twice', deed=deed)
        if rule.replacement and rule.action is not OutputAction.REPLACE:
            deed = 'leave it out, or write action = "replace"'
            yield Finding(path=(*path, "replacement"), what="nothing is replaced", deed=deed)
        names.add(rule.name)


CHECKS: Final[tuple[Callable[[Configuration], Iterator[Finding]], ...]] = (
    _deployment,
    _routes,
    _names,
    _persona_names,
    _models,
    _budgets,
    _prices,
    _addresses,
    _lengths,
    _output_rules,
)
"""Every check, in no particular order: findings are sorted by place."""
