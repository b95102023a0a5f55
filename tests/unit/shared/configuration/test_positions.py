"""Every key and value is found where it stands, whatever the TOML looks like."""

import tomllib

import pytest

from shared.configuration.positions import Path, Position, Positions

HERE = "¦"

CASES: dict[str, tuple[str, Path]] = {
    "a bare key": ("a = ¦1", ("a",)),
    "a later line": ("a = 1\n# b = 2\n\nb = ¦2", ("b",)),
    "a dotted key": ("a.b . c = ¦1", ("a", "b", "c")),
    "a quoted key": ('"a b"."\\u0063" = ¦1', ("a b", "c")),
    "a literal key": ("'a.b' = ¦1", ("a.b",)),
    "a table": ("[a.b]\nc = ¦1", ("a", "b", "c")),
    "a table of an array": ("[[a]]\nx = 1\n[[a]]\nx = ¦2", ("a", 1, "x")),
    "a table under an array": ("[[a]]\n[a.b]\nx = 1\n[[a]]\n[a.b]\nx = ¦2", ("a", 1, "b", "x")),
    "an element": ('a = [1, "]", ¦3]', ("a", 2)),
    "an element on its line": ("a = [\n  1, # one ]\n  ¦2,\n]", ("a", 1)),
    "nested elements": ("a = [[1], [2, ¦3]]", ("a", 1, 1)),
    "an inline table": ("a = { b = 1, c.d = ¦2 }", ("a", "c", "d")),
    "behind a long string": ('a = """x = 1\n"" \\" ]\n"""\nb = ¦2', ("b",)),
    "behind a literal long string": ("a = '''\n[x]\n''' # '\nb = ¦2", ("b",)),
    "behind a quote at the end": ('a = """x""""\nb = ¦2', ("b",)),
    "behind a comment with brackets": ("a = 1 # [b\n[c]\nd = ¦2", ("c", "d")),
    "behind dates": ("a = 1979-05-27 07:32:00Z\nb = ¦2", ("b",)),
    "behind wide signs": ('"ü🙂" = "🙂"\nb = ["🙂", ¦"x"]', ("b", 1)),
    "with Windows's line ends": ("a = 1\r\n[b]\r\nc = ¦2\r\n", ("b", "c")),
}


@pytest.mark.parametrize(("marked", "path"), CASES.values(), ids=CASES.keys())
def test_a_value_is_found(marked: str, path: Path):
    text = marked.replace(HERE, "")
    value: object = tomllib.loads(text)
    for part in path:
        value = value[part]  # type: ignore[index]  # a dict or a list, as the path says
    before = marked[: marked.index(HERE)]
    expected = Position(before.count("\n") + 1, len(before) - before.rfind("\n"))
    assert Positions(text).of_value(path) == expected


def test_every_value_of_a_file_has_a_place(repository_toml: str):
    places = Positions(repository_toml)
    lines = repository_toml.splitlines()

    def walk(value: object, path: Path) -> None:
        if isinstance(value, dict):
            for name, one in value.items():
                walk(one, (*path, name))
        elif isinstance(value, list):
            for number, one in enumerate(value):
                walk(one, (*path, number))
        else:
            line, column = places.of_value(path)
            rest = lines[line - 1][column - 1 :]
            shown = str(value).split("\n")[0][:8]
            assert shown in rest or rest.startswith(('"', "'", "t", "f")), path

    walk(tomllib.loads(repository_toml), ())


@pytest.fixture(params=["pyproject.toml", "ops/rehearsal/data/faults.toml"])
def repository_toml(request: pytest.FixtureRequest) -> str:
    root = request.config.rootpath
    text: str = (root / request.param).read_text(encoding="utf-8")
    return text


def test_a_table_that_nobody_wrote_is_at_its_nearest():
    places = Positions("[a]\nb = 1\n")
    assert places.of_key(("a", "c", "d")) == Position(1, 1)
    assert places.of_key(("x",)) == Position(1, 1)
