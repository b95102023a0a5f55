"""The pages for people: each link leads somewhere, each command and configuration is accepted."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer

from ops.cli.main import app
from shared.configuration.reading import read_configuration
from shared.configuration.schema import Configuration

ROOT = Path(__file__).resolve().parents[3]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
LINK = re.compile(r"\[[^\]\n]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`([^`\n]+)`")
HEADING = re.compile(r"^#+ +(.+)$", re.MULTILINE)
PLACES = {"...", "…", "COMMAND"}
"""What stands for something that the reader knows."""


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def links() -> list[tuple[str, str]]:
    return [
        (name_of(page), link)
        for page in PAGES
        for link in LINK.findall(FENCE.sub("", page.read_text(encoding="utf-8")))
        if not link.startswith(("http://", "https://", "mailto:"))
    ]


def anchors(page: Path) -> set[str]:
    """What a browser jumps to, as GitHub makes it of a heading."""
    headings = HEADING.findall(FENCE.sub("", page.read_text(encoding="utf-8")))
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.strip().replace(" ", "-") for heading in plain}


@pytest.mark.parametrize(("page", "link"), sorted(set(links())))
def test_a_link_leads_somewhere(page: str, link: str):
    path, _, anchor = link.partition("#")
    target = ((ROOT / page).parent / path).resolve() if path else ROOT / page
    assert target.exists()
    assert not anchor or anchor in anchors(target)


def commands() -> list[tuple[str, str]]:
    """Every `turnfleet ...` of a page: in a fence a line, in the text a piece of code."""
    found = set()
    for page in PAGES:
        if page.name == "CHANGELOG.md":
            continue
        text = page.read_text(encoding="utf-8")
        fenced = [line for _, body in FENCE.findall(text) for line in body.splitlines()]
        indented = [line for line in text.splitlines() if line.startswith("    ")]
        spans = CODE.findall(FENCE.sub("", text))
        for line in (*fenced, *indented, *spans):
            words = line.strip().removeprefix("$ ")
            if words.startswith("turnfleet "):
                found.add((name_of(page), words))
    return sorted(found)


@pytest.mark.parametrize(("page", "line"), commands())
def test_a_command_is_there_with_its_options(page: str, line: str):
    del page
    for spelled in alternatives(line):
        check(shlex.split(spelled, comments=True))


def alternatives(line: str) -> list[str]:
    """`turns list|show` as two commands; what follows a pipe or an arrow is the shell's."""
    line = re.split(r" [|<>] | && ", line.replace("\\|", "|"))[0]
    line = re.sub(r"[\[\]]", "", line)
    match = re.search(r"(\S+\|\S+)", line)
    if match is None:
        return [line]
    return [line.replace(match.group(), one, 1) for one in match.group().split("|")]


def check(words: list[str]) -> None:
    command: Any = typer.main.get_command(app)
    path, rest = ["turnfleet"], words[1:]
    while hasattr(command, "get_command") and rest and rest[0] not in PLACES:
        inner = command.get_command(typer.Context(command), rest[0])
        assert inner is not None, f"{' '.join(path)} has no {rest[0]}"
        command, path, rest = inner, [*path, rest[0]], rest[1:]
    known = {option for parameter in command.params for option in parameter.opts} | {"--help"}
    known |= {option for parameter in command.params for option in parameter.secondary_opts}
    for word in rest:
        if word.startswith("-") and len(word) > 1:
            assert word.partition("=")[0] in known, f"{' '.join(path)} has no {word}"


def configurations() -> list[tuple[str, str]]:
    return [
        (name_of(page), body)
        for page in PAGES
        for language, body in FENCE.findall(page.read_text(encoding="utf-8"))
        if language == "toml" and page.name in {"README.md", "configuration.md"}
    ]


@pytest.mark.parametrize(("page", "text"), configurations())
def test_a_configuration_is_accepted(page: str, text: str):
    assert isinstance(read_configuration(text, page), Configuration)
