"""What Discord refuses of answers to interactions and of commands that are registered.

Comes in: bodies of requests. Goes out: nothing, or a `Refusal`. `interactions` asks it.
"""

from typing import Any, Final

from ops.rehearsal.discord.world import Refusal

COMMAND, COMPONENT, FORM = 2, 3, 5
SAY, DEFER, DEFER_UPDATE, UPDATE, SHOW_FORM = 4, 5, 6, 7, 9
MAX_TITLE_CHARS: Final = 45
MAX_CUSTOM_ID_CHARS: Final = 100


def check_answer(asked: int, kind: int, data: dict[str, Any], *, has_message: bool) -> None:
    """Refuses an answer that Discord would refuse."""
    if kind not in (SAY, DEFER, DEFER_UPDATE, UPDATE, SHOW_FORM):
        raise Refusal(400, 50035, "Invalid Form Body: type")
    if kind == SHOW_FORM:
        if asked == FORM:
            raise Refusal(400, 50035, "Invalid Form Body: a modal cannot answer a modal")
        rows = data.get("components") or []
        if not 0 < len(str(data.get("title", ""))) <= MAX_TITLE_CHARS or not 0 < len(rows) <= 5:
            raise Refusal(400, 50035, "Invalid Form Body: modal")
        check_custom_id(data.get("custom_id"))
    if kind in (UPDATE, DEFER_UPDATE) and not has_message:
        raise Refusal(400, 50035, "Invalid Form Body: nothing to update")
    for row in data.get("components") or ():
        for part in row.get("components") or ():
            check_custom_id(part.get("custom_id"))


def check_custom_id(custom_id: object) -> None:
    """Refuses a custom id that is empty or too long."""
    if not isinstance(custom_id, str) or not 0 < len(custom_id) <= MAX_CUSTOM_ID_CHARS:
        raise Refusal(400, 50035, "Invalid Form Body: custom_id")


def check_command(command: dict[str, Any]) -> None:
    """Refuses a command that Discord would refuse (developer docs, application commands)."""
    kind = int(command.get("type", 1))
    for name in (command.get("name"), *(command.get("name_localizations") or {}).values()):
        check_name(name, kind)
    if kind == 1:
        check_descriptions(command)
    for option in command.get("options") or ():
        for name in (option.get("name"), *(option.get("name_localizations") or {}).values()):
            check_name(name, 1)
        check_descriptions(option)
        for below in option.get("options") or ():
            check_name(below.get("name"), 1)
            check_descriptions(below)


def check_name(name: object, kind: int) -> None:
    """Refuses a name: up to 32 characters; of a slash command lower case, without spaces."""
    text = str(name or "")
    is_word = all(char.isalnum() or char in "-_" for char in text) and text == text.lower()
    if not 0 < len(text) <= 32 or (kind == 1 and not is_word):
        raise Refusal(400, 50035, f"Invalid Form Body: name {text}")


def check_descriptions(thing: dict[str, Any]) -> None:
    """Refuses descriptions that are missing or longer than 100 characters."""
    texts = [thing.get("description"), *(thing.get("description_localizations") or {}).values()]
    if any(not 0 < len(str(text or "")) <= 100 for text in texts):
        raise Refusal(400, 50035, "Invalid Form Body: description")
