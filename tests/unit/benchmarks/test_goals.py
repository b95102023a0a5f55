"""The lines by which a measurement tells its goals to the report."""

import pytest

from benchmarks.goals import TITLES, Goal, goal_in

GOALS = [
    Goal(goal="G7", name="200 TLS streams, p99 ms", value=4.25, limit=50),
    Goal(goal="G9", name="MiB at rest", value=81.5, limit=70),
    Goal(goal="G12", name="events a second, two over one", value=1.9, limit=1.8, at_least=True),
    Goal(goal="G2", name="litellm, times ours", value=12.0, limit=80, at_least=True),
]


@pytest.mark.parametrize("goal", GOALS, ids=str)
def test_a_goal_is_read_from_its_own_line(goal):
    assert goal_in(str(goal)) == goal


def test_a_goal_is_met_on_the_right_side_of_its_limit():
    assert [goal.is_met for goal in GOALS] == [True, False, True, False]


@pytest.mark.parametrize("line", ["", "| G1 | x |", "G7: 3 ms", "redis 1 workers"])
def test_no_other_line_tells_a_goal(line):
    assert goal_in(line) is None


def test_every_goal_of_the_project_has_a_title():
    assert list(TITLES) == [f"G{number}" for number in range(1, 13)]
