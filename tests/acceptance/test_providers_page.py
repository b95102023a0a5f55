"""docs/providers.md, followed literally in a copy of the checkout."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
COPIED = ("shared", "worker", "ops", "tests", "pyproject.toml")
BLOCK = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
END_OF_ROWS = "\n)\n\nCUSTOM = "
TIMEOUT_S = 120.0
"""Some seconds alone; the whole suite may run beside it."""

pytestmark = pytest.mark.slow


def blocks() -> dict[str, str]:
    """The code blocks of the page by their title, or by their language."""
    page = (ROOT / "docs" / "providers.md").read_text(encoding="utf-8")
    return {title or language: text for language, title, text in BLOCK.findall(page)}


def run(copy: Path, arguments: list[str]) -> str:
    done = subprocess.run(
        arguments, cwd=copy, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_provider_is_added_as_the_page_says(tmp_path: Path):
    copy = tmp_path / "turnfleet"
    copy.mkdir()
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, copy / name)
    steps = blocks()

    table = copy / "worker" / "providers" / "quirks.py"
    rows = table.read_text(encoding="utf-8")
    assert rows.count(END_OF_ROWS) == 1
    table.write_text(
        rows.replace(END_OF_ROWS, "\n" + steps["row"].rstrip("\n") + END_OF_ROWS), encoding="utf-8"
    )
    for name in ("tests/data/providers/acme.sse", "tests/data/providers/acme.json"):
        (copy / name).write_text(steps[name], encoding="utf-8")

    assert run(copy, [sys.executable, "-c", steps["look"]]) == steps["looked"]
    python, *arguments = shlex.split(steps["console"])
    assert python == "python"
    report = run(copy, [sys.executable, *arguments])
    assert " passed" in report


def test_the_page_and_the_rehearsals_page_name_what_exists():
    for page in ("providers.md", "rehearsal.md"):
        text = (ROOT / "docs" / page).read_text(encoding="utf-8")
        for path in re.findall(r"`((?:ops|worker|tests|docs)/[\w./-]+)`", text):
            assert (ROOT / path).exists(), path
