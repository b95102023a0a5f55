"""Output rules at work: every segment passes them before it goes to the channel.

Comes in: segments of a turn. Goes out: the same, put otherwise or withheld where a rule of the
configuration says so; log lines and alerts name the rule and the turn, never the text.
"""

import logging
from collections.abc import Awaitable, Callable

import msgspec

from shared.alerts import Alert, AlertKind
from shared.at_rest import opened
from shared.configuration.loading import Loaded
from shared.configuration.output import OutputAction, OutputRule, Rulebook
from shared.errors import StoreError, WireError
from shared.i18n import Texts
from shared.logs import fields
from shared.segments import MAX_SEGMENT_CHARS, Segment, SegmentKind
from shared.wire import UNREADABLE

WITHHELD = "output.withheld"

MAX_SOURCE_CHARS = 64 * 1024
"""Of a table or file (`shared.segments`)."""

log = logging.getLogger(__name__)

Obey = Callable[[Segment], Awaitable[Segment]]


class OutputRules:
    """The rules as the configuration has them now.

    Args:
        loaded: gives the configuration of this process.
        texts: the catalogs.
        alert: raises an alert, unless it was raised lately.
    """

    def __init__(
        self,
        loaded: Callable[[], Loaded],
        texts: Texts,
        alert: Callable[[Alert], Awaitable[bool]],
    ) -> None:
        self._loaded = loaded
        self._texts = texts
        self._alert = alert
        self._rules: tuple[OutputRule, ...] = ()
        self._book = Rulebook(())

    @property
    def are_there(self) -> bool:
        """Whether the configuration has any."""
        return bool(self._loaded().configuration.output_rules)

    def of(self, request: bytes) -> Obey:
        """The rules for one turn, whose request stands there in JSON."""

        async def obey(segment: Segment) -> Segment:
            return await self.obey(segment, request)

        return obey

    async def obey(self, segment: Segment, request: bytes) -> Segment:
        """The segment as it may be shown. It never raises, and never drops one: numbers go on."""
        book = self._current()
        said = (segment.text, *segment.fallback)
        judged = [book.judge(text) for text in said]
        # A model names its files: the info of a code block is one.
        named = book.judge(segment.filename or "")
        matched = dict.fromkeys(rule for one in (*judged, named) for rule in one.matched)
        if not matched:
            return segment
        for rule in matched:
            await self._tell(rule, segment)
        shown = [
            one.text
            for one, text in zip(judged, said, strict=True)
            if one.text is not None and (one.text.strip() or not text.strip())  # a picture has none
        ]
        # A table's source is longer than a message, and never sent as one.
        limit = MAX_SOURCE_CHARS if segment.fallback else MAX_SEGMENT_CHARS
        bounds = [limit, *[MAX_SEGMENT_CHARS] * len(segment.fallback)]
        is_too_much = len(shown) < len(said) or any(map(_is_longer, shown, bounds))
        if is_too_much or named.text is None:
            return self._withheld(segment, request)
        # What a rule puts in the place of words is no file's name: the front's own stands there.
        filename = segment.filename if named.text == segment.filename else None
        fallback = tuple(shown[1:])
        return msgspec.structs.replace(segment, text=shown[0], fallback=fallback, filename=filename)

    def _withheld(self, segment: Segment, request: bytes) -> Segment:
        return msgspec.structs.replace(
            segment,
            kind=SegmentKind.TEXT,
            text=self._texts.text(WITHHELD, _locale_of(request)),
            fallback=(),
            filename=None,
            joint=None,
        )

    def _current(self) -> Rulebook:
        rules = self._loaded().configuration.output_rules
        if rules is not self._rules:
            self._rules, self._book = rules, Rulebook(rules)
        return self._book

    async def _tell(self, rule: OutputRule, segment: Segment) -> None:
        log.warning(
            "output.rule_matched",
            extra=fields(rule=rule.name, action=rule.action.value, seq=segment.seq),
        )
        if rule.action is OutputAction.REPLACE:
            return
        alert = Alert(kind=AlertKind.OUTPUT_RULE, subject=rule.name, cause=segment.turn_id)
        try:
            await self._alert(alert)
        except StoreError:
            log.debug("output.alert_lost")


async def obeyed(obey: Obey, turn_id: str, text: str) -> str:
    """A text of any length as it may be shown, judged part by part like a reply."""
    shown = []
    for paragraph in text.split("\n\n"):
        parts = range(0, len(paragraph), MAX_SEGMENT_CHARS)
        cuts = [_part(turn_id, paragraph[at : at + MAX_SEGMENT_CHARS]) for at in parts]
        shown.append("".join([(await obey(cut)).text for cut in cuts]))
    return "\n\n".join(shown)


def _part(turn_id: str, text: str) -> Segment:
    return Segment(
        turn_id=turn_id, attempt=0, seq=0, kind=SegmentKind.TEXT, text=text, start=0, end=len(text)
    )


class _Route(msgspec.Struct):
    locale: str = "en"


class _Spoken(msgspec.Struct):
    """The one field of a request that is needed here."""

    route: _Route = msgspec.field(default_factory=_Route)


_spoken = msgspec.json.Decoder(_Spoken)


def _locale_of(request: bytes) -> str:
    try:
        return _spoken.decode(opened(request)).route.locale
    except (*UNREADABLE, WireError):
        return "en"


def _is_longer(text: str, limit: int) -> bool:
    return len(text) > limit
