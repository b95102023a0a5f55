"""The line of sources: every vendor's shape, and nothing that could do harm."""

import pytest

from shared.messages import TextBlock
from worker.turn.sources import MAX_SOURCES, MAX_TITLE_CHARS, Source, sources_line, sources_of

PAGE = Source(url="https://a.example/page", title="A page")
SHAPES: dict[str, tuple[list[object], object]] = {
    "anthropic": (
        [{"type": "web_search_result_location", "url": PAGE.url, "title": "A page"}],
        None,
    ),
    "openai": ([{"type": "url_citation", "url": PAGE.url, "title": "A page"}], None),
    "chat": ([{"url_citation": {"url": PAGE.url, "title": "A page"}}], None),
    "google": ([], {"groundingChunks": [{"web": {"uri": PAGE.url, "title": "A page"}}]}),
    "twice": ([{"url": PAGE.url, "title": "A page"}, {"url": PAGE.url, "title": "Again"}], None),
}


@pytest.mark.parametrize(("citations", "grounding"), SHAPES.values(), ids=SHAPES)
def test_a_page_is_found_in_every_shape(citations, grounding):
    assert sources_of([TextBlock(text="x", citations=citations)], grounding) == [PAGE]


NOTHING = {
    "a document": {"type": "char_location", "document_title": "My notes"},
    "no web address": {"url": "javascript:alert(1)", "title": "x"},
    "an address that ends the link": {"url": "https://a.example/>)[x](https://evil", "title": "x"},
    "a session": {"url": "https://a.example/" + "x" * 300},
    "no object": "https://a.example",
    "a list inside": {"web": ["https://a.example"]},
    "a number": {"url": 5},
}


@pytest.mark.parametrize("citation", NOTHING.values(), ids=NOTHING)
def test_what_is_no_page_is_left_out(citation):
    assert sources_of([TextBlock(text="x", citations=[citation])], {"groundingChunks": 1}) == []


def test_a_title_can_neither_end_its_link_nor_mention_anybody():
    citation = {"url": PAGE.url, "title": "](https://evil) @everyone **b** <@1>" + "y" * 99}
    (source,) = sources_of([TextBlock(text="x", citations=[citation])], None)
    assert not set("[]()<>@*:") & set(source.title)
    assert len(source.title) <= MAX_TITLE_CHARS


def test_without_a_title_the_host_stands_for_it():
    citation = {"url": "https://user@a.example/page"}
    assert sources_of([TextBlock(text="x", citations=[citation])], None)[0].title == "a.example"


def test_the_line_is_bounded():
    many = [Source(url=f"https://a.example/{n}", title=f"Page {n}") for n in range(9)]
    line = sources_line(many, "Sources:")
    assert line.startswith("-# Sources: [Page 0](<https://a.example/0>) · ")
    assert line.count("](<") == MAX_SOURCES
    assert sources_line([], "Sources:") == ""
