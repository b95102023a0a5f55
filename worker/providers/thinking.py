"""How much reasoning an effort means in tokens, and what a request may generate altogether.

Comes in: a `ModelRequest`. Goes out: `TokenLimits`. Every vendor counts reasoning in its cap, so a
budget comes on top of what the answer may take. Pure; builders import it.
"""

import msgspec

from worker.providers.requests import ModelRequest

BUDGETS = {"low": 1024, "medium": 4096, "high": 16_384}
"""1,024 is the least that Anthropic takes; each further step is four times the one before."""
LEAST_BUDGET = BUDGETS["low"]


class TokenLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What may be generated.

    Args:
        answer: the cap where the request asks for no reasoning.
        total: the cap with reasoning.
        budget: the share of reasoning in it, None without reasoning.
    """

    answer: int
    total: int
    budget: int | None


def token_limits(request: ModelRequest) -> TokenLimits:
    """The limits of a request, within what its provider said is affordable."""
    effort = request.sampling.thinking
    budget = None if effort is None else BUDGETS.get(effort)
    answer = request.sampling.max_tokens
    total = answer + (budget or 0)
    cap = request.output_cap
    if cap is None or total <= cap:
        return TokenLimits(answer=answer, total=total, budget=budget)
    if budget is not None:
        half = min(budget, cap // 2)  # the answer keeps at least as much as the reasoning
        budget = half if half >= LEAST_BUDGET else None
    return TokenLimits(answer=min(answer, cap), total=cap, budget=budget)
