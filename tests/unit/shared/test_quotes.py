"""Prompts that a provider's error quotes, in the ways in which errors quote."""

import html
import json
import time

import pytest

from shared.quotes import MARK, without_quotes

PROMPT = "Why does my neighbour's dog, Rex, hate the postman?\nIt is called “Rex”, by the way."


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        (f"refused: {PROMPT}", f"refused: {MARK}"),
        (f"refused: {PROMPT.upper()} (400)", f"refused: {MARK} (400)"),
        (f"at: {json.dumps(PROMPT)}!", f'at: "{MARK}"!'),
        (json.dumps(json.dumps({"in": PROMPT})), f'"{{\\"in\\": \\"{MARK}\\"}}"'),
        (f"<p>{html.escape(PROMPT)}</p>", f"<p>{MARK}</p>"),
        (f"near '{PROMPT[5:40]}...'", f"near '{MARK}...'"),
        (f"{PROMPT[:30]} / {PROMPT[30:]}", f"{MARK} / {MARK}"),
        ("the postman is away", "the postman is away"),
        ("", ""),
    ],
    ids=[
        "whole",
        "case",
        "json",
        "json in json",
        "html",
        "a part",
        "two parts",
        "a phrase",
        "empty",
    ],
)
def test_a_quotation_is_taken_out(text, clean):
    assert without_quotes(text, ["You are helpful.", PROMPT]) == clean


@pytest.mark.parametrize(
    ("prompt", "text", "clean"),
    [
        ("tell me", "bad input: tell me", f"bad input: {MARK}"),
        ("hi", "this is high", "this is high"),
        ("", "nothing", "nothing"),
    ],
    ids=["short", "too short", "none"],
)
def test_a_short_prompt_is_looked_for_whole(prompt, text, clean):
    assert without_quotes(text, [prompt]) == clean


def test_it_costs_no_more_than_the_length_of_both():
    started = time.process_time()
    without_quotes("a" * 64_000, ["a" * 256_000, "ab" * 100_000])
    assert time.process_time() - started < 2.0


def test_twice_is_as_once():
    once = without_quotes(f"x {PROMPT} y", [PROMPT])
    assert without_quotes(once, [PROMPT]) == once
