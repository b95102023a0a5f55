"""Every notice once, as people see it: rendered in each language, to be looked at.

The pictures lie in `artefacts/browser`. The test itself only holds that nothing is said that no
catalog has, and that nothing runs out of its message.
"""

import re

import pytest

from gateway.delivery.pieces import pieces_of
from gateway.notices import SHOW_SOURCE, STOP, Notices
from shared.causes import CAUSES, notice_of
from shared.failures import Fault
from shared.i18n import load_texts
from shared.segments import FALLBACK, THOUGHTS, TurnDone, TurnEvent, TurnFailed
from shared.turns import CredentialSource, StopReason, TurnState
from tests.support.bubbles import page as bubbles
from tests.support.console import chromium, picture

pytestmark = [pytest.mark.slow]

TEXTS = load_texts()
NOTICES = Notices(TEXTS)
LANGUAGES = ["en", "ja", "zh-CN"]
VALUES = {
    "name": "openai/gpt-5", "names": "`fast`, `careful`", "provider": "openai", "key_id": "0a1b2c",
    "span": "2026-11", "used": "0.50 / 2.00", "share": "25 %", "tokens": "1,200 / 50,000",
    "code": "529", "cause": "invalid_key", "subject": "4f1c", "guilds": 3, "count": 12, "usual": 1,
}  # fmt: skip
"""Something for each value that a text may have."""
ENDS: dict[str, TurnEvent] = {
    "stopped": TurnDone(count=1, state=TurnState.CANCELLED),
    "empty": TurnDone(count=0),
    "length": TurnDone(count=2, stop_reason=StopReason.LENGTH),
    "filtered": TurnDone(count=1, stop_reason=StopReason.CONTENT_FILTER),
    "stand-in": TurnDone(count=1, notes=(FALLBACK, "budget_low", THOUGHTS)),
    "queue": TurnFailed(cause="request_timeout", category="timeout", headline="notice.no_worker",
                        fault=Fault.TURNFLEET, retryable=True),
    "tool": TurnFailed(cause="worker_lost", category="internal", headline="notice.lost_in_tool",
                       fault=Fault.TURNFLEET, count=2, retryable=True),
}  # fmt: skip
ASIDE = re.compile(r"(?:ask|form|modal|notice|alert|output)\.")


def failed(cause: str, source: CredentialSource, locale: str) -> TurnFailed:
    """A failure as a worker tells of it."""
    notice = notice_of(cause, source)
    return TurnFailed(
        cause=cause,
        category=CAUSES[cause].category,  # type: ignore[index]  # a word of the enumeration
        headline=TEXTS.text(notice.headline, locale),
        tips=tuple(TEXTS.text(tip, locale) for tip in notice.tips),
        fault=notice.fault,
        report_id="r1",
        code="529",
        credential_source=source,
    )


def shown(event: TurnEvent, locale: str) -> tuple[str, list[str]]:
    """What stands in the channel."""
    (piece,) = pieces_of(event, NOTICES, locale=locale, turn_id="m1")
    return piece.text, [button.label for button in piece.buttons]


def groups(locale: str) -> dict[str, list[tuple[str, list[str]]]]:
    """Everything that can be said in a language."""
    found = {
        f"{cause} on a key of: {source}": [shown(failed(cause, source, locale), locale)]
        for cause in CAUSES
        for source in CredentialSource
        if source is CredentialSource.SERVER or cause in ("invalid_key", "insufficient_balance")
    }
    found |= {f"end: {name}": [shown(event, locale)] for name, event in ENDS.items()}
    stop = [NOTICES.button(STOP, "m1", locale).label]
    found["while it runs"] = [("The first words of a reply.", stop)]
    found["while it waits"] = [(TEXTS.count("notice.queued", 2, locale), stop)]
    table = [NOTICES.say(SHOW_SOURCE, locale)]
    found["a drawn table"] = [("[table.png]", table)]
    for key in sorted(KEYS):
        text = (
            TEXTS.text(key, locale, **VALUES) if key not in PLURALS else TEXTS.count(key, 2, locale)
        )
        found.setdefault(key.partition(".")[0], []).append((text, []))
    return found


PLURALS = {"notice.queued", "alert.more", "ask.forgotten"}
KEYS = {key for key in TEXTS.keys if ASIDE.match(key)}


@pytest.mark.parametrize("locale", LANGUAGES)
def test_every_notice_is_said_by_a_catalog(locale: str):
    for messages in groups(locale).values():
        for text, _ in messages:
            assert text
            assert len(text) <= 2000
            assert not re.search(r"\{\w*\}|\b(?:ask|notice|failure|tip|fault)\.[a-z_]+\b", text)


async def test_every_notice_can_be_looked_at():
    async with chromium() as browser:
        page = await browser.new_page(viewport={"width": 680, "height": 900})
        for locale in LANGUAGES:
            await page.set_content(bubbles(groups(locale), locale))
            assert await page.evaluate("document.documentElement.scrollWidth") <= 680
            await picture(page, f"notices-{locale}")
        await page.close()
