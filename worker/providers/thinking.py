"""How much reasoning an effort means, for vendors that count it in tokens.

Comes in: an effort word of `Sampling.thinking`. Goes out: a budget. Pure; builders import it.
"""

BUDGETS = {"low": 1024, "medium": 4096, "high": 16_384}
"""1,024 is the least that Anthropic takes; each further step is four times the one before."""


def budget_of(effort: str | None) -> int | None:
    """The tokens of an effort; None where reasoning is off or left to the provider."""
    return None if effort is None else BUDGETS.get(effort)
