"""The fuzz target itself, for as long as a test may take, and on what it found before."""

import random

import pytest

from tests.fuzz import normalize


@pytest.mark.parametrize("seed", range(4))
def test_mutated_streams_never_raise(seed: int):
    source = random.Random(seed)
    for _ in range(100):
        normalize.TestOneInput(normalize.mutated(source.choice(normalize.seeds()), source))
