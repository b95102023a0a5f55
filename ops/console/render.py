"""Pages as HTML or as their JSON twin, and text from outside made safe for both.

Comes in: a page's facts as plain values. Goes out: responses. jinja2 escapes whatever a template
prints; what a reader is deceived by (bidi, control and invisible characters) is replaced before.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import jinja2
import msgspec
import regex
from markupsafe import Markup, escape
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from ops.console.access import csrf_of, is_known
from ops.console.desk import desk_of
from ops.console.drawing import bar, sparkline
from ops.triage.repairs import log_command, quoted
from shared import __version__, harmless
from shared.i18n import load_texts

CELL_CHARS: Final = 300
"""Of a text in a table; its own page has the rest."""
TEXT_CHARS: Final = 64 * 1024
"""Of a text on its own page: as much as a report keeps."""
_FENCE: Final = regex.compile(r"```(?:[a-z0-9+#-]*\n)?(.*?)```", regex.S)
_CODE: Final = regex.compile(r"`([^`\n]+)`")
_LITERAL: Final = str.maketrans({sign: f"&#{ord(sign)};" for sign in "*_~|"})
"""Within code these are only signs."""
_INLINE: Final = (
    (regex.compile(r"(?m)^-# (.+)$"), r"<small>\1</small>"),
    (regex.compile(r"(?m)^( *)[-*] (?=\S)"), "\\1\u2022 "),
    (regex.compile(r"(?m)^&gt; (.+)$"), r'<span class="quote">\1</span>'),
    (regex.compile(r"\*\*([^*\n]+)\*\*"), r"<strong>\1</strong>"),
    (regex.compile(r"__([^_\n]+)__"), r"<u>\1</u>"),
    (regex.compile(r"\*([^*\n]+)\*"), r"<em>\1</em>"),
    (regex.compile(r"~~([^~\n]+)~~"), r"<s>\1</s>"),
    (regex.compile(r"\|\|([^|\n]+)\|\|"), r'<span class="spoiler" tabindex="0">\1</span>'),
    (regex.compile(r"(?m)^#{1,3} (.+)$"), r"<strong>\1</strong>"),
)
"""What a line of a message has, about as Discord shows it, in text that is escaped."""
_MAX_JSON_INT: Final = 2**53
_texts: Final = load_texts()


def visible(value: object, limit_chars: int = TEXT_CHARS) -> str:
    """The text with a replacement character for whatever is obeyed or hidden, cut to the limit."""
    text = harmless.plain(str(value)[: limit_chars + 1])
    return text if len(text) <= limit_chars else text[:limit_chars] + "\u2026"


def cell(value: object) -> str:
    """A value in a table: on one line, short."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:g}"
    return " ".join(visible(value, CELL_CHARS).split())


def moment(value: object) -> Markup:
    """A moment as people read it, with the whole of it for machines."""
    at = datetime.fromtimestamp(value / 1000, UTC) if isinstance(value, int) else value
    if not isinstance(at, datetime):
        return Markup("")
    whole = at.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    shown = at.astimezone(UTC).strftime("%m-%d %H:%M:%S")
    return Markup('<time datetime="{}">{}</time>').format(whole, shown)


def ago(value: object) -> Markup:
    """How long ago it was, with the moment for whoever points at it."""
    at = datetime.fromtimestamp(value / 1000, UTC) if isinstance(value, int) else value
    if not isinstance(at, datetime):
        return Markup("")
    whole = at.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    passed_s = int((datetime.now(UTC) - at).total_seconds())
    text = f"{span(passed_s)} ago" if passed_s > 0 else "now"
    return Markup('<time datetime="{}" title="{}">{}</time>').format(whole, whole, text)


def span(seconds: int) -> str:
    """A time in its largest unit, of which there are at least two."""
    for unit_s, word in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * unit_s:
            return f"{seconds // unit_s} {word}"
    return f"{max(0, seconds)} s"


def headline(cause: object) -> str:
    """What a cause means, in a sentence; nothing for a word that the catalog does not have."""
    key = f"failure.{cause}"
    text = _texts.text(key)
    return "" if text == key else text


def facts(value: object) -> str:
    """JSON as people read it, made harmless."""
    encoded = msgspec.json.format(msgspec.json.encode(plain(value)), indent=2)
    return visible(encoded.decode())


def discord(text: str) -> Markup:
    """A message about as Discord shows it: fences, lists, quotes, code, emphasis, spoilers."""
    parts = []
    last = 0
    safe = visible(text)
    for match in _FENCE.finditer(safe):
        parts.append(_prose(safe[last : match.start()]))
        parts.append(Markup("<pre>{}</pre>").format(match[1].strip("\n")))
        last = match.end()
    parts.append(_prose(safe[last:]))
    return Markup("").join(parts)


def _prose(text: str) -> Markup:
    if not text.strip():
        return Markup("")
    shown = str(escape(text.strip("\n")))
    shown = _CODE.sub(lambda code: f"<code>{code[1].translate(_LITERAL)}</code>", shown)
    for pattern, markup in _INLINE:
        shown = pattern.sub(markup, shown)
    return Markup('<span class="prose">{}</span>').format(Markup(shown))  # noqa: S704 - escaped above


def _environment() -> jinja2.Environment:
    loader = jinja2.FileSystemLoader(Path(__file__).parent / "templates")
    environment = jinja2.Environment(
        loader=loader,
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters = {"cell": cell, "visible": visible, "moment": moment, "discord": discord}
    environment.filters |= filters | {"sparkline": sparkline, "ago": ago, "span": span}
    environment.filters |= {"headline": headline, "facts": facts, "quoted": quoted}
    environment.globals |= {"bar": bar, "version": __version__, "log_command": log_command}
    return environment


_templates: Final = _environment()


def page(request: Request, template: str, facts: Mapping[str, Any], status: int = 200) -> Response:
    """The page, or its JSON twin where the address ends with `.json`."""
    if request.url.path.endswith(".json"):
        body = msgspec.json.encode(plain(dict(facts)))
        return Response(harmless.json_line(body), status, media_type="application/json")
    return HTMLResponse(html(request, template, facts), status_code=status)


def html(request: Request, template: str, facts: Mapping[str, Any]) -> str:
    """A template with the facts and what every page has."""
    desk = desk_of(request)
    around = {
        "cell_name": desk.cell,
        "may_write": desk.may_write,
        "csrf": csrf_of(request),
        "is_known": is_known(request),
        "path": request.url.path,
        "query": request.query_params,
    }
    return _templates.get_template(template).render(around | dict(facts))


def plain(value: object) -> object:
    """Facts as JSON has them; ids beyond 53 bits as text, since JavaScript would round them."""
    if isinstance(value, msgspec.Struct):
        value = msgspec.to_builtins(value)
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > _MAX_JSON_INT:
        return str(value)
    return value
