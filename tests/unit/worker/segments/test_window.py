"""The held text: offsets into the visible text, and taking back."""

from worker.segments.window import Window


def filled(*runs: str) -> Window:
    window = Window()
    window.trigger = 100
    for run in runs:
        assert window.append(run) is False
    return window


def test_offsets_count_what_was_left_out_and_put_in():
    window = filled("ab")
    window.skip(3)
    window.skip(2)
    window.append("cd")
    window.skip(-1)
    window.append("e")
    assert [window.offset(at) for at in range(6)] == [0, 1, 7, 8, 8, 9]


def test_what_is_dropped_keeps_the_offsets():
    window = filled("ab")
    window.skip(3)
    window.append("cdef")
    window.skip(1)
    window.append("g")
    window.drop_before(4)
    assert (window.text, len(window)) == ("efg", 3)
    assert [window.offset(at) for at in (3, 4, 5, 6, 7)] == [6, 7, 8, 10, 11]
    assert window.slice(0, 5) == "e"


def test_what_is_taken_back_takes_its_offsets_along():
    window = filled("ab", "cd")
    window.skip(3)
    window.append("e")
    assert window.rewind(2) == "cde"
    assert (window.text, window.pos, window.offset(2)) == ("ab", 2, 2)
    assert window.rewind(0) == "ab"
    assert window.text == ""


def test_the_trigger_is_told():
    window = filled("ab")
    window.trigger = 3
    assert window.append("c") is True
