"""The commands as Discord is told of them: as it demands, and in every language."""

import pytest

from ops.rehearsal.discord.interaction_rules import check_command
from shared.commands import COMMANDS, MENU, names, registration
from shared.i18n import load_texts

TEXTS = load_texts()
BODIES = registration(TEXTS)
LANGUAGES = {"ja", "zh-CN"}


@pytest.mark.parametrize("body", BODIES, ids=lambda body: str(body["name"]))
def test_discord_takes_every_command(body):
    check_command(body)


def test_names_differ_in_every_language():
    for locale in ("ja", "zh-CN"):
        shown = [body["name_localizations"][locale] for body in BODIES]  # type: ignore[index]  # JSON
        assert len(set(shown)) == len(BODIES) == len(COMMANDS) + 1


def test_every_name_and_description_is_translated():
    def untranslated(thing: object, path: str = "") -> list[str]:
        found = []
        if isinstance(thing, list):
            return [one for part in thing for one in untranslated(part, path)]
        if isinstance(thing, dict):
            here = f"{path}/{thing.get('name', '')}"
            fields = [field for field in thing if field.endswith("_localizations")]
            found += [f"{here} {field}" for field in fields if set(thing[field]) != LANGUAGES]
            for part in thing.values():
                found += untranslated(part, here)
        return found

    assert untranslated(BODIES) == []


def test_the_menu_comes_last():
    assert names()[-1] == MENU
    assert "key set" in names()
    assert "context reset" in names()
