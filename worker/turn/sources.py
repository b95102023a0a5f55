"""The sources that a model cited, as one small line under its reply.

Comes in: citations as the vendors write them. Goes out: links, bounded and harmless. Pure; the
pipeline imports it.

Shapes: Anthropic `web_search_result_location` {url, title}; OpenAI `url_citation` {url, title}, in
chat completions one level deeper; Google `groundingChunks[].web` {uri, title}.
"""

import re
from collections.abc import Iterable, Sequence

import msgspec

from shared.messages import ContentBlock, TextBlock

MAX_SOURCES = 5
"""More is a bibliography; the first ones carry most of an answer."""
MAX_TITLE_CHARS = 40
MAX_URL_CHARS = 300
"""Five of these are within a message of 2,000. A longer address is one of a session, of no use."""

_URL = re.compile(r"https?://[^\s<>()\[\]\"'`\\|]+")
_MARKS = re.compile(r"[\[\]<>()`*_~|\\@#:\s]+")
"""What could end a link's title, format it or mention somebody."""


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """A page."""

    url: str
    title: str


def sources_of(content: Sequence[ContentBlock], grounding: object) -> list[Source]:
    """The pages that an answer cites, in order, each once."""
    cited = [
        citation
        for block in content
        if isinstance(block, TextBlock)
        for citation in block.citations or ()
    ]
    found = [_source(one) for one in [*cited, *_grounding_chunks(grounding)]]
    return list({one.url: one for one in reversed(found) if one is not None}.values())[::-1]


def sources_line(sources: Iterable[Source], label: str) -> str:
    """The line, empty where there is nothing to cite. Links have no preview (`<url>`)."""
    first = list(sources)[:MAX_SOURCES]
    links = " · ".join(f"[{source.title}](<{source.url}>)" for source in first)
    return f"-# {label} {links}" if links else ""


def _source(citation: object) -> Source | None:
    if not isinstance(citation, dict):
        return None
    inner = citation.get("url_citation") or citation.get("web") or citation
    if not isinstance(inner, dict):
        return None
    url = inner.get("url") or inner.get("uri")
    if not isinstance(url, str) or len(url) > MAX_URL_CHARS or not _URL.fullmatch(url):
        return None
    title = inner.get("title")
    words = _MARKS.sub(" ", title).strip() if isinstance(title, str) else ""
    host = url.split("/")[2].rpartition("@")[2]
    return Source(url=url, title=words[:MAX_TITLE_CHARS].strip() or _MARKS.sub(" ", host))


def _grounding_chunks(grounding: object) -> list[object]:
    if not isinstance(grounding, dict):
        return []
    chunks = grounding.get("groundingChunks") or grounding.get("grounding_chunks")
    return chunks if isinstance(chunks, list) else []
