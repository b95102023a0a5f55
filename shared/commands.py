"""The commands of the bot, as Discord is told of them.

Comes in: the catalogs. Goes out: the body of one bulk registration, names and descriptions in every
language that has a catalog. `turnfleet discord commands sync` sends it; `gateway.interactions` has
an entry for each (a test compares). Pure; anyone may import it.
"""

from typing import Final

import msgspec

from shared.i18n import DEFAULT_LOCALE, Texts

SLASH, MESSAGE = 1, 3
SUBCOMMAND, STRING = 1, 3
"""Discord's numbers (developer docs, application commands)."""
MANAGE_GUILD: Final = 1 << 5
IN_GUILDS, IN_DIRECT_MESSAGES = 0, 1

PROVIDERS: Final = (
    "anthropic", "openai", "google", "openrouter", "deepseek", "xai", "mistral", "groq"
)  # fmt: skip
"""What is proposed to whoever adds a key; any other that the bot knows can be typed."""

_SCOPES: Final = ("me", "channel", "server")
_OWNERS: Final = ("me", "server")


class Option(msgspec.Struct, frozen=True, kw_only=True):
    """A word that may follow a command. `text` is the key of its description."""

    name: str
    text: str
    choices: tuple[str, ...] = ()
    is_required: bool = False
    max_chars: int | None = None


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """A command, or one of its subcommands. `rights` is what Discord hides it from others by."""

    name: str
    options: tuple[Option, ...] = ()
    below: tuple["Command", ...] = ()
    rights: int | None = None
    is_for_guilds: bool = False


_SETTINGS: Final = (
    "show_thoughts", "details_hours", "locale", "delivery_mode", "follow_up", "speak", "context",
    "history_messages", "instructions",
)  # fmt: skip

COMMANDS: Final = (
    Command(
        name="ask",
        options=(Option(name="question", text="question", is_required=True, max_chars=1_800),),
    ),
    Command(name="stop", options=(Option(name="all", text="all", choices=("true",)),)),
    Command(name="retry"),
    Command(name="continue"),
    Command(
        name="model",
        options=(
            Option(name="name", text="model", max_chars=100),
            Option(name="scope", text="scope", choices=_SCOPES),
        ),
    ),
    Command(
        name="persona",
        options=(
            Option(name="name", text="persona", max_chars=100),
            Option(name="scope", text="scope", choices=_SCOPES),
        ),
    ),
    Command(name="usage"),
    Command(name="context", below=(Command(name="reset"),)),
    Command(
        name="settings",
        options=(
            Option(name="name", text="setting", choices=_SETTINGS),
            Option(name="value", text="value", max_chars=1_800),
            Option(name="scope", text="scope", choices=("channel", "server")),
        ),
        rights=MANAGE_GUILD,
        is_for_guilds=True,
    ),
    Command(
        name="key",
        below=(
            Command(
                name="set",
                options=(
                    Option(name="provider", text="provider", is_required=True, max_chars=32),
                    Option(name="scope", text="scope", choices=_OWNERS),
                ),
            ),
            Command(
                name="remove",
                options=(
                    Option(name="provider", text="provider", is_required=True, max_chars=32),
                    Option(name="scope", text="scope", choices=_OWNERS),
                ),
            ),
            Command(name="list"),
            Command(
                name="use",
                options=(Option(name="own", text="own", choices=("on", "off"), is_required=True),),
            ),
        ),
    ),
    Command(name="privacy", below=(Command(name="forget"),)),
)
"""Every slash command."""
MENU: Final = "about"
"""The command of a message's menu: "Ask about this"."""


def names() -> list[str]:
    """Every command that can be given, a subcommand after a space; that of the menu last.

    >>> names()[:3]
    ['ask', 'stop', 'retry']
    """
    found = []
    for command in COMMANDS:
        found += [f"{command.name} {one.name}" for one in command.below] or [command.name]
    return [*found, MENU]


def registration(texts: Texts) -> list[dict[str, object]]:
    """The body of a bulk registration."""
    found = [_command(command, texts) for command in COMMANDS]
    menu = {"type": MESSAGE, **_named(f"command.{MENU}", "name", texts)}
    return [*found, {**menu, "contexts": [IN_GUILDS, IN_DIRECT_MESSAGES]}]


def _command(command: Command, texts: Texts) -> dict[str, object]:
    body = {
        "type": SLASH,
        **_words(command.name, texts),
        "options": _options(command, texts),
        "contexts": [IN_GUILDS] if command.is_for_guilds else [IN_GUILDS, IN_DIRECT_MESSAGES],
    }
    if command.rights is not None:
        body["default_member_permissions"] = str(command.rights)
    return body


def _options(command: Command, texts: Texts) -> list[dict[str, object]]:
    if command.below:
        return [
            {"type": SUBCOMMAND, **_words(one.name, texts), "options": _options(one, texts)}
            for one in command.below
        ]
    return [_option(option, texts) for option in command.options]


def _option(option: Option, texts: Texts) -> dict[str, object]:
    body: dict[str, object] = {
        "type": STRING,
        "name": option.name,
        **_named(f"option.{option.text}", "description", texts),
        "required": option.is_required,
    }
    if option.choices:
        body["choices"] = [_choice(word, texts) for word in option.choices]
    elif option.max_chars is not None:
        body["max_length"] = option.max_chars
    return body


def _choice(word: str, texts: Texts) -> dict[str, object]:
    """A choice: words that the catalog has are said in its languages, names of settings as is."""
    key = f"choice.{word}"
    if texts.text(key) == key:
        return {"name": word, "value": word}
    return {**_named(key, "name", texts), "value": word}


def _words(name: str, texts: Texts) -> dict[str, object]:
    key = f"command.{name}"
    return {**_named(key, "name", texts), **_named(f"{key}.about", "description", texts)}


def _named(key: str, field: str, texts: Texts) -> dict[str, object]:
    others = {
        locale.replace("_", "-"): texts.text(key, locale)
        for locale in sorted(texts.locales - {DEFAULT_LOCALE})
        if texts.text(key, locale) != texts.text(key)
    }
    return {field: texts.text(key), f"{field}_localizations": others}
