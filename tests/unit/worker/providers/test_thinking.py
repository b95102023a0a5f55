"""What a request may generate."""

import pytest

from shared.turns import Sampling
from tests.support.asked import asked, body_of
from worker.providers.thinking import TokenLimits, token_limits


@pytest.mark.parametrize(
    ("max_tokens", "thinking", "cap", "limits"),
    [
        (500, None, None, (500, 500, None)),
        (500, "off", None, (500, 500, None)),
        (500, "low", None, (500, 1524, 1024)),
        (500, "high", 20_000, (500, 16_884, 16_384)),
        (500, "high", 10_000, (500, 10_000, 5000)),
        (500, "medium", 2100, (500, 2100, 1050)),
        (500, "low", 1000, (500, 1000, None)),
        (500, None, 100, (100, 100, None)),
    ],
)
def test_a_budget_comes_on_top_as_far_as_it_is_affordable(
    max_tokens: int, thinking: str | None, cap: int | None, limits: tuple[int, int, int | None]
):
    sampling = Sampling(max_tokens=max_tokens, thinking=thinking)
    request = asked("groq", "m", sampling=sampling, output_cap=cap)
    answer, total, budget = limits
    assert token_limits(request) == TokenLimits(answer=answer, total=total, budget=budget)


@pytest.mark.parametrize("cap", [None, 100])
@pytest.mark.parametrize(
    ("provider", "field", "reasons"),
    [
        ("openrouter", "max_tokens", True),
        ("mistral", "max_tokens", False),
        ("anthropic", "max_tokens", True),
    ],
)
def test_the_cap_is_sent(provider: str, field: str, reasons: bool, cap: int | None):
    sampling = Sampling(max_tokens=500, thinking="low")
    sent = body_of(asked(provider, "m", sampling=sampling, output_cap=cap))[field]
    assert sent == (cap or (1524 if reasons else 500))
