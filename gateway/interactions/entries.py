"""What can be asked for: one row for each command, button and form.

Comes in: the desks. Goes out: the table of `Desk`. `gateway.inward` builds it; a test compares its
commands with those that Discord is told of.
"""

from typing import Final

from gateway.asks import AskKind
from gateway.interactions.asking import ABOUT, Asking
from gateway.interactions.choosing import ChoiceDesk
from gateway.interactions.desk import Entries, Entry
from gateway.interactions.details import ERROR, DetailsDesk
from gateway.interactions.keys import KEY, KeyDesk
from gateway.interactions.privacy import PrivacyDesk
from gateway.interactions.turns import TurnDesk

RETRY: Final = "retry"
CONTINUE: Final = "continue"
STOP: Final = "stop"
THOUGHTS: Final = "thoughts"
SOURCE: Final = "source"


def entries(
    *,
    asking: Asking,
    turns: TurnDesk,
    details: DetailsDesk,
    keys: KeyDesk,
    choices: ChoiceDesk,
    privacy: PrivacyDesk,
) -> Entries:
    """The table. Rows that do not wait answer first by themselves, without Redis or in its time."""
    command, button, form = AskKind.COMMAND, AskKind.BUTTON, AskKind.FORM
    return {
        (command, "ask"): Entry(act=asking.ask, waits=False),
        (command, ABOUT): Entry(act=asking.about, waits=False),
        (form, ABOUT): Entry(act=asking.about_sent, waits=False),
        (command, STOP): Entry(act=turns.stop),
        (command, RETRY): Entry(act=turns.retry),
        (command, CONTINUE): Entry(act=turns.go_on),
        (button, STOP): Entry(act=turns.stop_one, waits=False),
        (button, RETRY): Entry(act=turns.retry_one),
        (button, CONTINUE): Entry(act=turns.go_on_one),
        (button, ERROR): Entry(act=details.full_error, waits=False),
        (form, ERROR): Entry(act=details.error_closed, waits=False),
        (button, THOUGHTS): Entry(act=details.thoughts),
        (button, SOURCE): Entry(act=details.source),
        (command, "key set"): Entry(act=keys.open, waits=False),
        (form, KEY): Entry(act=keys.sent),
        (command, "key remove"): Entry(act=keys.remove),
        (command, "key list"): Entry(act=keys.list),
        (command, "key use"): Entry(act=keys.use),
        (command, "model"): Entry(act=choices.model),
        (command, "persona"): Entry(act=choices.persona),
        (command, "settings"): Entry(act=choices.settings),
        (command, "context reset"): Entry(act=choices.reset),
        (command, "usage"): Entry(act=choices.usage),
        (command, "privacy forget"): Entry(act=privacy.forget),
    }
