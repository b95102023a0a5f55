from importlib.resources import files

import pytest

from shared.edges.scripting import source_of

FOLDER = files("shared.edges") / "scripts"
NAMES = sorted(entry.name.removesuffix(".lua") for entry in FOLDER.iterdir())
PARTS = {"common", "lanes", "running"}
SCRIPTS = [name for name in NAMES if name not in PARTS]


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_says_its_keys_arguments_and_answers(name: str):
    text = source_of(name)
    for word in ("-- KEYS:", "-- ARGV:", "-- Answers:"):
        assert word in text


MUST_COMPLETE = {
    "ack",
    "audit",
    "beat",
    "cancel",
    "finish",
    "journal",
    "lead",
    "next_attempt",
    "note_tool",
    "pause",
    "reap",
    "release",
}
"""What ends, keeps or delivers work that was taken, and what an operator mends it with."""
MAY_BE_REFUSED = {"admit", "append", "claim"}
"""What begins work, or grows a stream: a full server refuses it, and is not filled any further."""


@pytest.mark.parametrize("name", sorted(MUST_COMPLETE | MAY_BE_REFUSED))
def test_a_full_server_completes_what_was_begun_and_begins_nothing(name: str):
    first = source_of(name).splitlines()[0]
    assert first == ("#!lua flags=allow-oom" if name in MUST_COMPLETE else "#!lua")


@pytest.mark.parametrize("name", SCRIPTS)
def test_what_is_included_is_included_before_it_is_used(name: str):
    text = source_of(name)
    parts = [
        text.find(f"-- {head}")
        for head in ("What the scripts share", "Where waiting", "What concerns")
    ]
    found = [at for at in parts if at >= 0]
    assert found == sorted(found)
    assert parts[2] < 0 or parts[1] >= 0, "running needs lanes"


@pytest.mark.parametrize("name", SCRIPTS)
def test_includes_are_put_in(name: str):
    assert not any(line.startswith("--@include") for line in source_of(name).splitlines())


def test_a_part_is_never_sent_alone():
    for name in PARTS:
        assert not source_of(name).startswith("#!lua")
