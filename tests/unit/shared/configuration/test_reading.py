"""A configuration that is wrong in one place: line, column, and what to do."""

import pytest

from shared.configuration.reading import Wrong, read_configuration
from shared.configuration.schema import Configuration
from tests.support.configurations import GOOD

HERE = "¦"
"""Stands in a replacement where the problem is to be found."""

CASES = {
    # what stands in the file, what is written instead, a part of what is wrong, a part of the deed
    "a setting that is none": (
        "slots = 50",
        "¦slot = 50",
        'there is no setting "slot"',
        'did you mean "slots"?',
    ),
    "a secret": ("slots = 50", '¦discord_token = "x"', "a secret", "TURNFLEET_DISCORD_TOKEN"),
    "a setting with its place elsewhere": (
        "slots = 50",
        "¦guild_depth = 50",
        "its place is elsewhere",
        "[limits]",
    ),
    "a setting of a wrong type": (
        "slots = 50",
        'slots = ¦"many"',
        "expected a whole number",
        "without quotes",
    ),
    "a setting that is no word of its list": (
        "slots = 50",
        'crash_policy = ¦"foo"',
        "enum value 'foo'",
        "supersede or notice",
    ),
    "a setting out of bounds": ("slots = 50", "slots = ¦0", "a whole number", "at least 1"),
    "a setting that cannot be read": (
        "slots = 50",
        'health_listen = ¦"foo"',
        "no address to listen at",
        "host:port",
    ),
    "a table that is none": (
        "[deployment]",
        "¦[deploy]",
        "there is no such table",
        "did you mean `deployment`?",
    ),
    "an address that is none": (
        '"http://127.0.0.1:5001/v1"',
        '¦"127.0.0.1:5001"',
        "does not have the form",
        "https://host/v1",
    ),
    "a key in clear": ('"file:/run', '¦"sk-/run', "does not have the form", "never stands here"),
    "a model without its id": ("[models.big]", "¦[models.big]", "`model` is missing", "add `model"),
    "a number in quotes": (
        "context_tokens = 200_000",
        'context_tokens = ¦"200000"',
        "expected a whole number, got text",
        "without quotes",
    ),
    "a yes for true": ("vision = true", 'vision = ¦"yes"', "true or false", "without quotes"),
    "an answer longer than the context": (
        "max_tokens = 4096",
        "max_tokens = ¦200_000",
        "leaves no room",
        "context_tokens (200000)",
    ),
    "an effort that is none": ('thinking = "low"', 'thinking = ¦"much"', "form", "low, medium"),
    "a price below nothing": ("input = 3.0", "input = ¦-3.0", "expected a number", "at least 0"),
    "a price without its half": (
        "{ input = 3.0, output = 15.0,",
        "{ output = 15.0,",
        "`input` is missing",
        "add `input",
    ),
    "a wire format that is none": ('"openai-chat"', '¦"openai"', "enum value", "openai-chat"),
    "a temperature too high": ("temperature = 0.7", "temperature = ¦7", "number", "at most 2"),
    "a model that a route does not find": (
        '  "small",\n]',
        '  ¦"smal",\n]',
        'there is no model "smal"',
        'did you mean "small"?',
    ),
    "a model twice in a route": ('  "small",\n]', '  ¦"big",\n]', "stands here twice", "once"),
    "a route without models": (
        'models = [\n  "big",   # asked first\n  "small",\n]',
        "models = ¦[]",
        "length",
        "make it longer",
    ),
    "a route that is called like a model": (
        "[personas.ada]",
        '¦[routes.big]\nmodels = ["small"]\n\n[personas.ada]',
        "a model has this name too",
        "rename",
    ),
    "a share over one": ("share = 0.05", "share = ¦5", "number", "at most 1"),
    "a canary that is none": (
        'model = "small", share',
        'model = ¦"tiny", share',
        'there is no model "tiny"',
        "use one of big, small",
    ),
    "a persona with a forbidden name": (
        'name = "Ada"',
        'name = ¦"Clyde"',
        "Discord refuses",
        "another name",
    ),
    "an avatar without TLS": (
        '"https://example',
        '¦"http://example',
        "does not have the form",
        "begins with https://",
    ),
    "a delivery mode that is none": (
        'delivery_mode = "line"',
        'delivery_mode = ¦"lines"',
        "enum value",
        "paragraph, line",
    ),
    "a persona's model that is none": (
        'model = "small"\nlocale',
        'model = ¦"medium"\nlocale',
        "there is no route or model",
        "use one of",
    ),
    "a default route that is none": (
        'model = "main"',
        'model = ¦"mian"',
        'no route or model "mian"',
        'did you mean "main"?',
    ),
    "a default persona that is none": (
        'persona = "ada"',
        'persona = ¦"eve"',
        'there is no persona "eve"',
        "use one of ada",
    ),
    "a follow-up that is none": ('"merge"', '¦"drop"', "enum value", "queue, replace, merge"),
    "a lane that is none": ('"thread"', '¦"server"', "enum value", "channel, thread, user"),
    "a history too long": ("history_messages = 40", "history_messages = ¦400", "number", "at most"),
    "an id in quotes": ("deny_users = [42]", 'deny_users = [¦"42"]', "whole number", "[..., ...]"),
    "an unknown list": (
        "deny_users = [42]",
        "¦deny_user = [42]",
        "there is no such setting",
        "did you mean `deny_users`?",
    ),
    "a depth of nothing": ("guild_depth = 20", "guild_depth = ¦0", "number", "at least 1"),
    "a budget of nothing": (
        '[[budgets]]\nscope = "guild"\nperiod = "day"\ncost = 5.0',
        '¦[[budgets]]\nscope = "guild"\nperiod = "day"',
        "bounds nothing",
        "add `cost` or `tokens`",
    ),
    "a budget of a scope that is none": (
        'scope = "guild"',
        'scope = ¦"server"',
        "enum value",
        "all, guild, user, model",
    ),
    "a budget of nobody": (
        'id = "80351110224678912"',
        'id = ¦"Ada"',
        "this is no id",
        "the number from Discord",
    ),
    "a budget of money for a model without price": (
        "[models.small.price]\ninput = 0.0\noutput = 0.0\n",
        "",
        "this model has no price",
        "[models.small.price]",
    ),
    "a pattern that is none": (
        "[access]",
        '[[output_rules]]\nname = "a"\npattern = ¦"("\naction = "block"\n[access]',
        "no regular expression",
        "try it out",
    ),
    "a rule of a name that another has": (
        "[access]",
        '[[output_rules]]\nname = "a"\npattern = "b"\naction = "block"\n'
        '[[output_rules]]\nname = ¦"a"\npattern = "c"\naction = "block"\n[access]',
        "stands here twice",
        "each rule once",
    ),
    "a replacement that replaces nothing": (
        "[access]",
        '[[output_rules]]\nname = "a"\npattern = "b"\naction = "block"\n'
        'replacement = ¦"c"\n[access]',
        "nothing is replaced",
        'action = "replace"',
    ),
    "text without quotes": ('front = "discord"', "front = ¦discord", "no TOML", "in quotes"),
    "a key twice": (
        "slots = 50\ntools",
        "slots = 50\nslots = 51¦\ntools",
        "overwrite",
        "keep one",
    ),
    "a table twice": ("[limits]", "[defaults¦]", "declare", "join the two"),
    "a string without its end": ('front = "discord"', 'front = "discord¦', "no TOML", "end the"),
    "a list without its end": ('"calculate"] }', '"calculate" ¦}', "no TOML", "close the list"),
}


@pytest.mark.parametrize(("old", "new", "what", "deed"), CASES.values(), ids=CASES.keys())
def test_what_is_wrong_in_one_place(old: str, new: str, what: str, deed: str):
    assert GOOD.count(old) == 1
    marked = GOOD.replace(old, new)
    if new.endswith("[models.big]"):
        marked = marked.replace('model = "claude-next"\n', "")
    found = read_configuration(marked.replace(HERE, ""), "t.toml")
    assert isinstance(found, Wrong)
    (problem,) = found.problems
    assert what in problem.what
    assert deed in problem.deed
    if HERE in marked:
        before = marked[: marked.index(HERE)]
        assert (problem.line, problem.column) == (
            before.count("\n") + 1,
            len(before) - before.rfind("\n"),
        )
    assert str(problem).startswith(f"t.toml:{problem.line}:{problem.column}: ")


def test_the_whole_file_is_right():
    found = read_configuration(GOOD)
    assert isinstance(found, Configuration)
    assert found.personas["ada"].system == "You are Ada.\nYou answer briefly."
    assert [budget.period for budget in found.budgets] == ["day", "month"]


def test_an_empty_file_is_right():
    assert read_configuration("") == Configuration()


def test_all_problems_are_found_at_once_in_the_order_of_the_text():
    found = read_configuration('[limits]\nuser_depth = -1\n[model.a]\n[routes.x]\nmodels = "y"\n')
    assert isinstance(found, Wrong)
    assert [(one.line, one.path) for one in found.problems] == [
        (2, "limits.user_depth"),
        (3, "model"),
        (5, "routes.x.models"),
    ]


def test_a_file_of_a_million_characters_is_refused():
    found = read_configuration("#" * 1024 * 1024 + "\n")
    assert isinstance(found, Wrong)
    assert "over 1 MiB" in found.problems[0].what


def test_the_example_of_the_documentation_is_right(request: pytest.FixtureRequest):
    page = (request.config.rootpath / "docs" / "configuration.md").read_text(encoding="utf-8")
    example = page.split("```toml\n")[1].split("```")[0]
    found = read_configuration(example)
    assert isinstance(found, Configuration), str(found)
