"""Which call a fragment belongs to, where the wire says it badly (OpenAI chat and its kin).

Comes in: what a delta of `tool_calls` says (id, index, name, arguments). Goes out: fragments of
calls, into a `Reply`. Imported by the chat dialect.

No single field identifies a call: indices are missing, always 0 or start at 1; ids are missing,
empty, repeated or changing; names are repeated, late or split. Each rule below is a bug that some
client shipped; together they are `CallTracker.find`.
"""

import re

from worker.normalize.blocks import CallPart
from worker.normalize.partial_json import is_complete
from worker.normalize.reply import Reply

_MARK = re.compile(r'[{}\[\]"]|\\.?', re.DOTALL)


class TrackedCall:
    """A call with what the wire calls it: all its ids, and its index."""

    __slots__ = ("call", "completion", "ids", "wire_index")

    def __init__(self, call: CallPart, wire_index: int | None) -> None:
        self.call = call
        self.wire_index = wire_index
        self.ids: set[str] = set()
        self.completion = Completion(call)


class CallTracker:
    """The calls of one chat stream."""

    def __init__(self, reply: Reply) -> None:
        self._reply = reply
        self._calls: list[TrackedCall] = []
        self._newest_at: dict[int | None, TrackedCall] = {}
        """The newest call by index; at None the newest of all."""

    def proceed(self, wire_index: int | None, arguments: str) -> bool:
        """Adds a fragment that is nothing but arguments, as most are; False if `add` must look."""
        tracked = self._newest_at.get(wire_index)
        if tracked is None or tracked.completion.watches:
            return False
        call = tracked.call
        if not call.announced or call.text.length == len(arguments):
            return False
        self._reply.current = call
        self._reply.arguments(call, arguments)
        return True

    def add(self, call_id: str, wire_index: int | None, name: str, arguments: str) -> CallPart:
        """Books one fragment and returns its call."""
        tracked = self.find(call_id, wire_index, name)
        if tracked is None:
            tracked = TrackedCall(self._reply.open_call(call_id, name), wire_index)
            self._calls.append(tracked)
            self._newest_at[wire_index] = self._newest_at[None] = tracked
        call = tracked.call
        if call_id and call_id not in tracked.ids:
            tracked.ids.add(call_id)
            self._reply.identify(call, call_id)
        if name and not call.announced:
            self._rename(call, name)
        self._reply.current = call
        if arguments and self._is_resend(call, arguments):
            arguments = ""
        if tracked.completion.watches:
            tracked.completion.feed(arguments)
        self._reply.arguments(call, arguments)
        return call

    def find(self, call_id: str, wire_index: int | None, name: str) -> TrackedCall | None:
        """The call that a fragment continues, or None if it begins one."""
        known = self._by_id(call_id, wire_index) if call_id else None
        if known is not None:
            # One id for two parallel calls: another index with a name is another call.
            is_other = name and None not in (wire_index, known.wire_index)
            return None if is_other and known.wire_index != wire_index else known
        candidate = self._newest_at.get(wire_index)
        if candidate is None or (name and self._begins_anew(candidate, call_id, wire_index)):
            return None
        return candidate

    def _begins_anew(self, candidate: TrackedCall, call_id: str, wire_index: int | None) -> bool:
        """A fragment with a name: does it leave `candidate` and begin a call of its own?"""
        if not candidate.call.name:
            return False
        if call_id and (candidate.ids or wire_index is None):
            return True
        return candidate.completion.is_reached()

    def _by_id(self, call_id: str, wire_index: int | None) -> TrackedCall | None:
        same = [tracked for tracked in self._calls if call_id in tracked.ids]
        here = [tracked for tracked in same if tracked.wire_index == wire_index]
        found = here or same
        return found[-1] if found else None

    def _rename(self, call: CallPart, name: str) -> None:
        """Sets a name once; appends where only the joined name is that of a tool."""
        tools = self._reply.tools
        if not call.name:
            call.name = name
        elif call.name not in tools and call.name + name in tools:
            call.name += name

    @staticmethod
    def _is_resend(call: CallPart, arguments: str) -> bool:
        """True for the complete arguments once more; a fragment may well repeat a fragment."""
        return (
            call.text.length == len(arguments)
            and call.arguments() == arguments
            and is_complete(arguments)
        )


class Completion:
    """Whether a call's argument text is complete, asked again and again while it grows.

    Only servers that repeat the name on every fragment make us ask. From the first question on
    brackets are counted, each fragment once, and the text is parsed only when they balance; a text
    that balanced and was no JSON cannot become JSON by growing.
    """

    __slots__ = ("_call", "_depth", "_escaped", "_in_string", "_is_fresh", "_verdict", "watches")

    def __init__(self, call: CallPart) -> None:
        self.watches = False
        self._call = call
        self._depth = 0
        self._in_string = False
        self._escaped = False
        """The last fragment ended with a backslash, which belongs to the next character."""
        self._is_fresh = False
        self._verdict: bool | None = None
        """None until the brackets balanced once; False is final."""

    def is_reached(self) -> bool:
        """True if nothing is missing at the end of the text."""
        if not self.watches:
            self.watches = True
            self.feed(self._call.arguments())
        if self._verdict is not False and self._is_fresh and not (self._depth or self._in_string):
            self._verdict = is_complete(self._call.arguments())
            self._is_fresh = False
        return self._verdict is True and not self._is_fresh

    def feed(self, fragment: str) -> None:
        """Counts the brackets of what was added to the text."""
        if not fragment.strip():
            return
        self._is_fresh = True
        start = 1 if self._escaped else 0
        self._escaped = False
        for match in _MARK.finditer(fragment, start):
            mark = match.group()
            if mark[0] == "\\":
                self._escaped = len(mark) == 1
            elif mark == '"':
                self._in_string = not self._in_string
            elif not self._in_string:
                self._depth += 1 if mark in "{[" else -1
