"""What was said in a channel, as the messages that a model reads before a prompt.

Comes in: a turn, what the channel's memory has, files that were read. Goes out: messages, within a
budget of tokens, the newest kept. Pure; `worker.edges.context` feeds it.

A person's words carry the person's name where several speak; what answers an older message says
which. Our own parts of one reply are one message. Roles alternate, and a person speaks first: some
vendors refuse anything else.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from shared.history import Attachment, Context, Reading, Remembered
from shared.messages import ContentBlock, ImageBlock, Message, Role, TextBlock
from shared.turns import TurnRequest
from worker.providers.requests import ModelRequest

QUOTED_CHARS: Final = 80
"""Of a message that is answered and stands further up: enough to find it."""
BEFORE: Final = "[Earlier messages are not shown.]"
"""Stands before a reply of ours whose question is not there any more."""
FILE: Final = "[File {name}]\n{text}\n[End of the file]"
NOT_READ: Final = "[File {name}, not read: {why}]"
PICTURE: Final = "[Picture {name}]"
NOTES: Final = "What your earlier replies here noted for you:"
IMAGE_TOKENS: Final = 1_600
"""Of a picture: Anthropic's most; others count less (docs, vision)."""
_INSTRUCTING: Final = frozenset({Role.SYSTEM, Role.DEVELOPER})
_MESSAGE_TURN: Final = re.compile(r"[mli](\d+)(?:\.\d+)?")


class Files(msgspec.Struct, frozen=True, kw_only=True):
    """The attachments of a prompt that were fetched, by id; `refused` says why others were not."""

    texts: Mapping[int, str] = msgspec.field(default_factory=dict)
    images: Mapping[int, ImageBlock] = msgspec.field(default_factory=dict)
    refused: Mapping[int, str] = msgspec.field(default_factory=dict)


def conversed(
    request: TurnRequest,
    remembered: Sequence[Remembered],
    files: Files,
    *,
    max_tokens: int,
    notes: Sequence[str] = (),
) -> TurnRequest:
    """The turn with all that it reads.

    Args:
        request: as it was admitted.
        remembered: what was said before its prompt, oldest first.
        files: what was fetched of its attachments.
        max_tokens: of what is read of the channel.
        notes: what earlier replies noted.
    """
    reading = request.reading
    if reading is None:
        return request
    mine = {int(found[1]) for one in request.merged if (found := _MESSAGE_TURN.fullmatch(one))}
    known = {one.id: one for one in remembered if one.id not in mine}
    chosen = _within(_chosen(reading, known), _chain(reading.reply_to, known), max_tokens)
    history = _merged([_message_of(one, before, known) for before, one in _pairs(chosen)])
    if history and history[0].role is Role.ASSISTANT:
        history.insert(0, Message(role=Role.USER, content=BEFORE))
    last = chosen[-1].id if chosen else None
    asked = _asked(request, reading, files, known, last)

    system = _system(request.system, notes)
    return msgspec.structs.replace(request, system=system, messages=[*history, *asked])


def tokens_in(text: str) -> int:
    """About how many tokens a text has: four letters of Latin script, or one of another.

    >>> tokens_in("abcdefgh"), tokens_in("日本")
    (2, 2)
    """
    other = sum(1 for letter in text if ord(letter) > 0x24F)
    return (len(text) - other + 3) // 4 + other


def _chain(start: int | None, known: Mapping[int, Remembered]) -> list[Remembered]:
    """The messages that a reply hangs on, oldest first; a ring of edits does not catch it."""
    chain: dict[int, Remembered] = {}
    at = start
    while at is not None and at in known and at not in chain:
        chain[at] = known[at]
        at = known[at].reply_to
    return list(chain.values())[::-1]


def _chosen(reading: Reading, known: Mapping[int, Remembered]) -> list[Remembered]:
    if reading.context is Context.NONE:
        return []
    chain = _chain(reading.reply_to, known)
    latest = sorted(known)[-reading.messages :] if reading.messages else []
    ids = {one.id for one in chain}
    if reading.context is Context.CHANNEL:
        ids |= set(latest)
    return [known[one] for one in sorted(ids)]


def _within(chosen: list[Remembered], chain: list[Remembered], max_tokens: int) -> list[Remembered]:
    """The newest that fit; what the prompt answers comes first."""
    left = max_tokens
    kept: set[int] = set()
    allowed = {one.id for one in chosen}
    for one in [*reversed(chain), *reversed(chosen)]:
        if one.id in kept or one.id not in allowed:
            continue
        cost = tokens_in(one.text) + 4  # a message has a frame around it
        if cost > left:
            if one in chain:
                continue
            break
        left -= cost
        kept.add(one.id)
    return [one for one in chosen if one.id in kept]


def _pairs(chosen: Sequence[Remembered]) -> Iterable[tuple[Remembered | None, Remembered]]:
    return zip([None, *chosen], chosen, strict=False)


def _message_of(
    one: Remembered, before: Remembered | None, known: Mapping[int, Remembered]
) -> Message:
    if one.is_own:
        return Message(role=Role.ASSISTANT, content=one.text)
    marks = [_quote(one.reply_to, known, None if before is None else before.id)]
    attached = [_mark_of(file) for file in one.attachments]
    body = "\n".join(part for part in (*marks, one.text, *attached) if part)
    return Message(role=Role.USER, content=_named(one.author, body))


def _asked(
    request: TurnRequest,
    reading: Reading,
    files: Files,
    known: Mapping[int, Remembered],
    last: int | None,
) -> list[Message]:
    """The prompt's messages: with the name, what it answers, and its files behind the last one.

    What follows an answer (a reply that goes on has one) is not of the person, and stays as it is.
    """
    quote = _quote(reading.reply_to, known, last)
    roles = [message.role is Role.USER for message in request.messages]
    count = roles.index(False) if False in roles else len(roles)
    messages = []
    for number, message in enumerate(request.messages):
        if number >= count:
            messages.append(message)
            continue
        is_last = number == count - 1
        said, blocks = _parts(message)
        attached = [*blocks, *(_attached(reading.attachments, files) if is_last else ())]
        if is_last and not said and not attached:
            # A picture alone is a prompt; of one that cannot be fetched its name is left.
            said = "\n".join(_mark_of(one) for one in reading.attachments)
        text = "\n".join(part for part in (quote if is_last else "", said) if part)
        text = _named(reading.author, text)
        # Anthropic refuses an empty text beside a picture.
        parts = [TextBlock(text=text)] if text.strip() else []
        content: str | list[ContentBlock] = [*parts, *attached] if attached else text
        messages.append(msgspec.structs.replace(message, content=content))
    return messages


def _parts(message: Message) -> tuple[str, list[ContentBlock]]:
    """The text that a message begins with, and its other blocks."""
    if isinstance(message.content, str):
        return message.content, []
    first, *others = message.content or [TextBlock(text="")]
    return (first.text, others) if isinstance(first, TextBlock) else ("", [first, *others])


def _attached(attachments: Sequence[Attachment], files: Files) -> list[ContentBlock]:
    blocks: list[ContentBlock] = []
    for one in attachments:
        if one.id in files.images:
            blocks.append(files.images[one.id])
        elif one.id in files.texts:
            blocks.append(TextBlock(text=FILE.format(name=one.name, text=files.texts[one.id])))
        elif one.id in files.refused:
            why = files.refused[one.id]
            blocks.append(TextBlock(text=NOT_READ.format(name=one.name, why=why)))
    return blocks


def _merged(messages: Iterable[Message]) -> list[Message]:
    """Messages with alternating roles; what one side said in a row is one of them."""
    found: list[Message] = []
    for message in messages:
        if found and found[-1].role is message.role:
            joined = f"{found[-1].content}\n\n{message.content}"
            found[-1] = msgspec.structs.replace(message, content=joined)
        else:
            found.append(message)
    return found


def _quote(reply_to: int | None, known: Mapping[int, Remembered], before: int | None) -> str:
    """Which message is answered, unless it is the one just before."""
    if reply_to is None or reply_to == before or reply_to not in known:
        return ""
    one = known[reply_to]
    text = " ".join(one.text.split())
    text = text if len(text) <= QUOTED_CHARS else f"{text[:QUOTED_CHARS]}…"
    whose = "your message" if one.is_own else f"{one.author or 'a message'}"
    return f'[in reply to {whose}: "{text}"]'


def _mark_of(attachment: Attachment) -> str:
    """What stands for a file of an older message."""
    if attachment.mime_type.startswith("image/"):
        return PICTURE.format(name=attachment.name)
    return f"[File {attachment.name}]"


def _named(author: str, text: str) -> str:
    return f"{author}: {text}" if author else text


def _system(system: str | None, notes: Sequence[str]) -> str | None:
    if not notes:
        return system
    listed = "\n".join(f"- {note}" for note in notes)
    return "\n\n".join(part for part in (system or "", f"{NOTES}\n{listed}") if part)


def fitted(question: ModelRequest, max_tokens: int) -> ModelRequest:
    """A question whose history leaves room for its answer: the oldest goes, the prompt stays.

    Counts are estimates; a model that still finds it too long is asked once more with half.
    """
    room = max_tokens - tokens_in(question.system or "")
    room -= sum(tokens_in(str(tool.parameters)) for tool in question.tools)
    messages = question.messages
    weights = [_weight(message) for message in messages]
    starts = [at for at, one in enumerate(messages) if one.role is Role.USER]
    over = sum(weights) - room
    if over <= 0 or len(starts) < 2:
        return question
    # Whole exchanges: what stays begins with a person, so that no result stands without its call.
    cut = next((at for at in starts if sum(weights[:at]) >= over), starts[-1])
    kept = [one for one in messages[:cut] if one.role in _INSTRUCTING]
    return msgspec.structs.replace(question, messages=[*kept, *messages[cut:]])


def _weight(message: Message) -> int:
    """About the tokens of a message; a picture counts as much as vendors count a large one."""
    if isinstance(message.content, str):
        return tokens_in(message.content) + 4
    weight = 4
    for block in message.content:
        if isinstance(block, TextBlock):
            weight += tokens_in(block.text)
        elif isinstance(block, ImageBlock):
            weight += IMAGE_TOKENS
    return weight
