"""Names in the pages for contributors: each module, attribute and file that they name is there."""

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGES = ("README.md", "CONTRIBUTING.md", "docs/architecture.md", "docs/glossary.md")
CODE = re.compile(r"`([^`\n]+)`")
PATH = re.compile(r"(?:worker|shared|gateway|ops|docs|tests|k8s)/[\w/.-]+")
DOTTED = re.compile(r"(?:worker|shared|gateway|ops)(?:\.\w+)+")


def named(pattern: re.Pattern[str]) -> list[tuple[str, str]]:
    """(page, name) for each piece of code on a page that is such a name."""
    pages = {page: (ROOT / page).read_text(encoding="utf-8") for page in PAGES}
    found = {
        (page, match.group())
        for page, text in pages.items()
        for code in CODE.findall(text)
        if (match := pattern.match(code))
    }
    return sorted(found)


@pytest.mark.parametrize(("page", "name"), named(PATH))
def test_a_file_that_a_page_names_is_there(page: str, name: str):
    assert (ROOT / name).exists()


@pytest.mark.parametrize(("page", "name"), named(DOTTED))
def test_a_module_or_attribute_that_a_page_names_is_there(page: str, name: str):
    parts = name.split(".")
    for size in range(len(parts), 0, -1):
        try:
            value: object = importlib.import_module(".".join(parts[:size]))
        except ModuleNotFoundError:
            continue
        for part in parts[size:]:
            value = getattr(value, part)
        return
    pytest.fail(name)
