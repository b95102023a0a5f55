"""Questions by command: `/ask`, and "Ask about this" of a message's menu.

Comes in: asks. Goes out: prompts, to intake, like those that people write. The question is said in
the channel first, for everybody, and the answer is a reply to that message: with a nonce and a
journal like every other, which answers to interactions have not (decision 0016).
"""

from typing import Final

from gateway.asks import Answers, Ask, Caller, Field, Form
from gateway.front import Prompt, Refused, Sent
from gateway.interactions.ports import Details, Prompts
from shared.i18n import Texts
from shared.turns import Front

QUESTION: Final = "question"
ABOUT: Final = "about"
SHOWN_CHARS: Final = 1_800
"""Of a question that is said: with its marks, the name and a notice it is below 2,000."""
QUOTE: Final = "[A message that {author} wrote]\n{text}\n[End of the message]\n\n{question}"
"""What the model reads of a message that was asked about."""


class Asking:
    """Takes questions.

    Args:
        prompts: where they go.
        details: keeps messages while the question about them is written.
        texts: the catalogs.
    """

    def __init__(self, prompts: Prompts, details: Details, texts: Texts) -> None:
        self._prompts = prompts
        self._details = details
        self._texts = texts

    async def ask(self, ask: Ask, answers: Answers) -> None:
        """`/ask`."""
        question = ask.values.get(QUESTION, "").strip()
        if not question:
            await answers.whisper(self._texts.text("ask.empty", ask.caller.locale))
            return
        if not await self._may_ask(ask, answers):
            return
        message_id = await self._said(ask, answers, question)
        if message_id is not None:
            await self._put(ask, answers, question, question, message_id)

    async def about(self, ask: Ask, answers: Answers) -> None:
        """Opens the window for the question about a message."""
        locale, subject = ask.caller.locale, ask.subject
        if subject is None or not subject.text.strip():
            await answers.whisper(self._texts.text("ask.no_text", locale))
            return
        if not await self._may_ask(ask, answers):
            return
        form = Form(
            custom_id=f"{ABOUT}:{ask.interaction_id}",
            title=self._texts.text("form.about", locale),
            fields=(
                Field(
                    key=QUESTION,
                    label=self._texts.text("form.question", locale),
                    is_long=True,
                    max_chars=SHOWN_CHARS,
                ),
            ),
        )
        # The window first: it has three seconds, and writing takes longer than Redis.
        # It may stand there although Discord's answer is missing: the message is kept either way.
        await answers.form(form)
        await self._details.keep_subject(ask.interaction_id, subject)

    async def about_sent(self, ask: Ask, answers: Answers) -> None:
        """The question of that window."""
        question = ask.values.get(QUESTION, "").strip()
        number = int(ask.argument) if ask.argument.isdecimal() else 0
        if not await self._may_ask(ask, answers):
            return
        message_id = await self._said(ask, answers, question or "…")
        if message_id is None:
            return
        subject = await self._details.subject(number) if question and number else None
        if subject is None:
            reason = self._texts.text("form.expired", ask.caller.locale)
            await answers.change(f"{said_of(question or '…')}\n-# {reason}")
            return
        text = QUOTE.format(author=subject.author, text=subject.text, question=question)
        await self._put(ask, answers, question, text, message_id)

    async def _may_ask(self, ask: Ask, answers: Answers) -> bool:
        """Whether this person may write here: commands work where they may only read."""
        if not ask.caller.may_write:
            await answers.whisper(self._texts.text("ask.forbidden", ask.caller.locale))
        return ask.caller.may_write

    async def _said(self, ask: Ask, answers: Answers, question: str) -> int | None:
        """Says the question in the channel; its message, or None when that was refused."""
        outcome = await answers.say(said_of(question))
        if isinstance(outcome, Refused):
            return None  # too late, or asked before: the person sees that it failed, and asks again
        # Without an answer to `say` the question may stand there all the same.
        return outcome.message_id if isinstance(outcome, Sent) else ask.interaction_id

    async def _put(
        self, ask: Ask, answers: Answers, shown: str, text: str, message_id: int
    ) -> None:
        turn_id = f"i{ask.interaction_id}"
        prompt = prompt_of(ask.caller, message_id, text, turn_id)
        notice = await self._prompts.take(prompt)
        if notice is not None:
            reason = self._texts.text(notice, ask.caller.locale)
            await answers.change(f"{said_of(shown)}\n-# {reason}")


def said_of(question: str) -> str:
    r"""A question as the channel sees it: quoted, line by line.

    >>> said_of("one\ntwo")
    '> one\n> two'
    """
    cut = question if len(question) <= SHOWN_CHARS else question[: SHOWN_CHARS - 1] + "…"
    lines = [f"> {line}" for line in cut.splitlines()]
    shown = "\n".join(lines)
    if len(shown) > SHOWN_CHARS + 2:  # many short lines, of which each has its mark
        shown = shown[: SHOWN_CHARS - 1] + "…"
    return shown


def prompt_of(caller: Caller, message_id: int, text: str, turn_id: str) -> Prompt:
    """A prompt as if its person had written it to the bot."""
    return Prompt(
        front=Front.DISCORD,
        message_id=message_id,
        channel_id=caller.channel_id,
        user_id=caller.user_id,
        guild_id=caller.guild_id,
        parent_id=caller.parent_id,
        roles=caller.roles,
        is_age_restricted=caller.is_age_restricted,
        text=text,
        mentions_bot=True,
        locale=caller.locale,
        turn_id=turn_id,
    )
