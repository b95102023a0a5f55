"""The goals of the project's speed, G1 to G12, as lines that the report collects.

Comes in: what a measurement found. Goes out: one line for each goal, printed among the tables of
its measurement; `python -m benchmarks` puts them together, and says which goal has none.
"""

import re

import msgspec

TITLES = {
    "G1": "normalizer over its own floor",
    "G2": "normalizer beside other stacks",
    "G3": "growth with a tool's argument",
    "G4": "growth with one large event",
    "G5": "text buffer: cost, evenness, growth",
    "G6": "normalizer and buffer beside the bare client",
    "G7": "streams of one worker",
    "G8": "added time of 100 streams",
    "G9": "memory",
    "G10": "Redis between worker and gateway",
    "G11": "pick-up of a turn",
    "G12": "two processes on two cores",
}
_LINE = re.compile(r"(G\d+) \| (.+?) \| (\S+) \| (at most|at least) (\S+) \| (met|MISSED)")


class Goal(msgspec.Struct, frozen=True, kw_only=True):
    """A number with its limit."""

    goal: str
    name: str
    value: float
    limit: float
    at_least: bool = False

    @property
    def is_met(self) -> bool:
        """Whether it is on the right side of its limit."""
        return self.value >= self.limit if self.at_least else self.value <= self.limit

    def __str__(self) -> str:
        sign = "at least" if self.at_least else "at most"
        verdict = "met" if self.is_met else "MISSED"
        cells = [self.goal, self.name, f"{self.value:.2f}", f"{sign} {self.limit:g}", verdict]
        return " | ".join(cells)


def told(goals: list[Goal]) -> bool:
    """Prints goals; whether all are met."""
    for goal in goals:
        print(goal, flush=True)
    return all(goal.is_met for goal in goals)


def goal_in(line: str) -> Goal | None:
    """The goal that a printed line tells of."""
    found = _LINE.fullmatch(line)
    if found is None:
        return None
    goal, name, value, sign, limit, _ = found.groups()
    return Goal(
        goal=goal,
        name=name,
        value=float(value),
        limit=float(limit),
        at_least=sign == "at least",
    )
