"""Choices as words of a command line: `name=value`.

Comes in: words. Goes out: changed `Choices`, or what is wrong with a word. `ops.cli.config` imports
it.
"""

from typing import Any, Final

import msgspec
import typer

from shared.configuration.checks import suggestion
from shared.configuration.choices import Access, Choices, Scope

_FIELDS: Final = frozenset(Choices.__struct_fields__) - {"access", "model_key"}
_LISTS: Final = frozenset(Access.__struct_fields__)


def owner_of(guild: int | None, channel: int | None, user: int | None) -> tuple[Scope, int]:
    """Whose choices are meant.

    Raises:
        typer.BadParameter: nobody, or several.
    """
    named = [
        (scope, owner)
        for scope, owner in ((Scope.GUILD, guild), (Scope.CHANNEL, channel), (Scope.USER, user))
        if owner is not None
    ]
    if len(named) != 1:
        raise typer.BadParameter("name one of --guild, --channel, --user")
    return named[0]


def changed(choices: Choices, words: list[str]) -> Choices:
    """Choices with `name=value` words put in; a word without a value takes its choice back.

    Raises:
        typer.BadParameter: a name or value that is none.
    """
    for word in words:
        name, sign, text = word.partition("=")
        if not sign:
            raise typer.BadParameter(f"{word!r}: write NAME=VALUE")
        head, _, rest = name.strip().partition(".")
        if head == "access" and rest in _LISTS:
            access = _with(choices.access or Access(), rest, text.strip(), name)
            choices = msgspec.structs.replace(
                choices, access=None if access == Access() else access
            )
        elif not rest and head in _FIELDS:
            choices = _with(choices, head, text.strip(), name)
            if head == "model":  # the operator's word: it needs nobody's key
                choices = msgspec.structs.replace(choices, model_key=None)
        else:
            known = [*_FIELDS, *(f"access.{one}" for one in _LISTS)]
            raise typer.BadParameter(f"there is no choice {name!r}; {suggestion(name, known)}")
    return choices


def _with(owner: Any, field: str, text: str, name: str) -> Any:
    """The owner with one field read from a text; no text gives its default."""
    fields = {one.name: one for one in msgspec.structs.fields(type(owner))}
    if not text:
        return msgspec.structs.replace(owner, **{field: fields[field].default})
    is_list = field == "tools" or (isinstance(owner, Access) and field != "allow_dm")
    value: object = text
    if is_list:
        value = [] if text in {"-", "none"} else [part.strip() for part in text.split(",")]
    try:
        found = msgspec.convert(value, fields[field].type, strict=False)
    except msgspec.ValidationError as exc:
        raise typer.BadParameter(f"{name}={text}: {exc}") from exc
    return msgspec.structs.replace(owner, **{field: found})
