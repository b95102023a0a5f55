import pytest

from worker.normalize.counts import added, count


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0, 0),
        (5, 5),
        (0.5, 0.5),
        (-1, None),
        (True, None),
        ("5", None),
        (None, None),
        (float("nan"), None),
        (float("inf"), None),
        (2**53, None),
    ],
)
def test_only_numbers_from_zero_are_counts(value: object, expected: object):
    assert count(value) == expected


def test_sum_of_unknown_counts_is_unknown():
    assert added(None, None) is None
    assert added(1, None, 2) == 3
