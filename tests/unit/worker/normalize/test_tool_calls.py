import pytest

from worker.normalize.blocks import CallPart
from worker.normalize.reply import Reply
from worker.normalize.tool_calls import CallTracker, Completion

Fragment = tuple[str, int | None, str, str]


def calls(*fragments: Fragment, tools: tuple[str, ...] = ()) -> list[tuple[str, str, str]]:
    reply = Reply("acme", "m", frozenset(tools))
    tracker = CallTracker(reply)
    for call_id, index, name, arguments in fragments:
        plain = not call_id and not name
        if not (plain and tracker.proceed(index, arguments)):
            tracker.add(call_id, index, name, arguments)
    return [(call.id, call.name, call.arguments()) for call in reply.calls]


CASES: dict[str, tuple[list[Fragment], list[tuple[str, str, str]]]] = {
    "id and index as they should be": (
        [("a", 0, "f", ""), ("", 0, "", "{"), ("", 0, "", "}"), ("b", 1, "g", "{}")],
        [("a", "f", "{}"), ("b", "g", "{}")],
    ),
    "index 0 for all": (
        [("a", 0, "f", "{"), ("b", 0, "g", "["), ("a", 0, "", "}")],
        [("a", "f", "{}"), ("b", "g", "[")],
    ),
    "one id for two parallel calls": (
        [("a", 0, "f", "{"), ("a", 1, "g", "["), ("a", 1, "", "]"), ("a", 0, "", "}")],
        [("a", "f", "{}"), ("", "g", "[]")],
    ),
    "id that changes without a name": (
        [("a", 0, "f", "{"), ("b", 0, "", "}"), ("b", None, "", " ")],
        [("a", "f", "{} ")],
    ),
    "id and name but no index": (
        [("a", None, "f", "{"), ("", None, "", "}"), ("b", None, "f", "{}")],
        [("a", "f", "{}"), ("b", "f", "{}")],
    ),
    "id later than the name": (
        [("", 0, "f", ""), ("a", 0, "", "{}")],
        [("a", "f", "{}")],
    ),
    "fragments before anything": ([("", 3, "", "{"), ("a", 3, "f", "}")], [("a", "f", "{}")]),
    "complete arguments again": (
        [("a", 0, "f", '{"a":1}'), ("a", 0, "", '{"a":1}')],
        [("a", "f", '{"a":1}')],
    ),
    "two equal fragments": ([("a", 0, "f", '"x'), ("a", 0, "", '"x')], [("a", "f", '"x"x')]),
}


@pytest.mark.parametrize(("fragments", "expected"), CASES.values(), ids=list(CASES))
def test_fragments_find_their_call(fragments: list[Fragment], expected: list[tuple[str, str, str]]):
    found = calls(*fragments)
    assert [(name, text) for _, name, text in found] == [(n, text) for _, n, text in expected]
    assert all(
        ours == theirs or not theirs
        for (ours, *_), (theirs, *_) in zip(found, expected, strict=True)
    )


def test_name_repeated_with_every_fragment_continues_until_the_arguments_are_complete():
    text = '{"a":"x\\\\\\"}","b":[1]}'
    fragments = [("", 0, "f", char) for char in text] + [("", 0, "f", "{}")]
    assert [(name, got) for _, name, got in calls(*fragments)] == [("f", text), ("f", "{}")]


def test_name_is_joined_only_where_that_makes_it_a_tools_name():
    split: list[Fragment] = [("a", 0, "get_", ""), ("", 0, "weather", ""), ("", 0, "", "{}")]
    assert calls(*split, tools=("get_weather",)) == [("a", "get_weather", "{}")]
    repeated: list[Fragment] = [("a", 0, "get", ""), ("", 0, "get", "{}")]
    assert calls(*repeated, tools=("get",)) == [("a", "get", "{}")]


@pytest.mark.parametrize(
    ("fragments", "verdicts"),
    [
        (['{"a":', "1}", "  ", "x"], [False, True, True, False]),
        (['"{\\', '"a\\":1}', '"'], [False, False, True]),
        (["abc", "}", "{"], [False, False, False]),
        (['{"a" 1}', "{}"], [False, False]),
        (["", "{}"], [False, True]),
    ],
)
def test_completion_is_known_at_each_fragment(fragments: list[str], verdicts: list[bool]):
    call = CallPart(0, "c", "f")
    completion = Completion(call)
    seen = []
    for fragment in fragments:
        call.text.append(fragment)
        if completion.watches:
            completion.feed(fragment)
        seen.append(completion.is_reached())
    assert seen == verdicts
