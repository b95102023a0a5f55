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


@pytest.mark.parametrize("name", SCRIPTS)
def test_includes_are_put_in(name: str):
    assert not any(line.startswith("--@include") for line in source_of(name).splitlines())


def test_a_part_is_never_sent_alone():
    for name in PARTS:
        assert not source_of(name).startswith("#!lua")
