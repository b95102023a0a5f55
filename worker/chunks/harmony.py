"""Harmony, the markup of gpt-oss, where a server did not parse it: channels, headers, calls.

Comes in: its tokens and the text between them. Goes out: what that text is, and the calls in it.
Pure; for `worker.chunks.think_tags` only.

`<|start|>assistant<|channel|>analysis<|message|>...<|end|>`: the header up to `<|message|>`
vanishes; the channel `final`, or none, is text, any other is reasoning. With
`to=functions.<an exposed tool>` in the header, the body up to `<|call|>` is a call's arguments.
"""

from collections.abc import Container

import regex

from shared.messages import ArgumentState
from worker.chunks.pieces import Called
from worker.normalize.partial_json import final_arguments

MAX_HEADER_CHARS = 180
"""Roles, a channel and a recipient; templates write some tens of characters."""
MAX_BODY_CHARS = 8192
"""A call over this is reasoning, as any other candidate for a call is given up."""

_HEADER = regex.compile(
    r"(?:[ \t]|assistant|user|system|developer|tool|analysis|commentary|final|json|code"
    r"|to=[\w.-]*|(?:functions|browser|python)(?:\.[\w.-]*)?)*+"
)
_RECIPIENT = regex.compile(r"to=functions\.([\w-]+)")


class HarmonyChannel:
    """Where in the markup a text stands. Without any markup everything is text.

    Args:
        tools: names of the tools whose calls are wanted; none leaves calls in the reasoning.
    """

    __slots__ = ("_body", "_body_size", "_header", "_named_at", "_tool", "_tools", "in_header",
                 "is_reasoning")  # fmt: skip

    def __init__(self, tools: Container[str] = ()) -> None:
        self.in_header = False
        self.is_reasoning = False
        self._tools = tools
        self._header = ""
        self._named_at = -1  # where in the header the channel's name begins
        self._tool = ""  # whose arguments the body is
        self._body: list[str] = []
        self._body_size = 0

    @property
    def is_visible(self) -> bool:
        """Whether text here belongs to the answer."""
        return not self.in_header and not self.is_reasoning and not self._tool

    @property
    def is_call(self) -> bool:
        """Whether text here is a call's arguments, in which tags are text."""
        return bool(self._tool)

    def obey(self, word: str) -> list[Called]:
        """Takes a token; gives the call that it ends."""
        if word == "constrain":
            return []
        calls = self._end_call() if self._tool else []
        if word == "message":
            self._begin_body()
        elif word == "channel" and self.in_header:
            self._header += " "
            self._named_at = len(self._header)
        else:
            self.in_header, self.is_reasoning = word in {"start", "channel"}, False
            self._header, self._named_at = "", 0 if word == "channel" else -1
        return calls

    def continues(self, char: str) -> bool:
        """Takes a character of a header; false if no header has it there."""
        header = self._header + char
        found = _HEADER.fullmatch(header, partial=True)
        if found is None or len(header) > MAX_HEADER_CHARS:
            return False
        self._header = header
        return True

    def leave_header(self) -> str:
        """Gives back a header that was none: somebody named the token in the text."""
        self.in_header = False
        header, self._header = self._header, ""
        return header

    def read(self, text: str) -> str:
        """Takes text behind a header; gives back what is no argument of a call."""
        return self._read_body(text) if self._tool else text

    def flush(self) -> list[Called]:
        """Ends the text: a call that is open was cut off."""
        return self._end_call(is_cut=True) if self._tool else []

    def _begin_body(self) -> None:
        channel = self._header[self._named_at :] if self._named_at >= 0 else "final"
        recipient = _RECIPIENT.search(self._header)
        if recipient is not None and recipient[1] in self._tools:
            self._tool = recipient[1]
        self.in_header = False
        self.is_reasoning = not channel.lstrip().startswith("final") and not self._tool

    def _read_body(self, text: str) -> str:
        self._body.append(text)
        self._body_size += len(text)
        if self._body_size <= MAX_BODY_CHARS:
            return ""
        self._tool, self.is_reasoning = "", True
        return self._take_body()

    def _take_body(self) -> str:
        body = "".join(self._body)
        self._body.clear()
        self._body_size = 0
        return body

    def _end_call(self, *, is_cut: bool = False) -> list[Called]:
        name, self._tool = self._tool, ""
        args, state = final_arguments(self._take_body())
        if is_cut and state is ArgumentState.OK:
            state = ArgumentState.TRUNCATED
        return [Called(name, args, state)]
