"""What providers write when they mean the same: codes and wordings, by what they say.

Comes in: nothing. Goes out: the conditions of rows whose list is long. Pure; `rules` imports it. A
provider that says it in yet another way is a line here, and an example in a test.
"""

from worker.failures.rule import any_of, words

FILTER_CODES = any_of(
    "content_filter",
    "responsibleaipolicyviolation",
    "content_policy_violation",
    "datainspectionfailed",
    "data_inspection_failed",
)
"""A filter spoke, in a code."""

FILTER_WORDS = words(
    r"['\"]code['\"]: ?['\"]content_filter['\"]",
    r"responsibleaipolicyviolation",
    r"\bcontent (?:filtering|management) policy\b",
    r"\bviolat\w{1,4} (?:our )?usage (?:policy|policies|guidelines)\b",
    r"\bour safety system\b",
    r"\bunsafe or sensitive content\b",
)
"""A filter spoke, in words or in a code within text."""

BALANCE_CODES = any_of(
    "insufficient_quota",
    "billing_error",
    "billing_hard_limit_reached",
    "exceeded_current_quota_error",
    "arrearage",
    "budget_exceeded",
)
"""Nothing is left to pay with."""

BALANCE_WORDS = words(
    r"insufficient (?:account )?balance",
    r"balance is (?:insufficient|too low)",
    r"credit balance is too low",
    r"insufficient credits?",
    r"not enough credits?",
    r"no resource package",
    r"please recharge",
    r"insufficient_user_quota",
    r"billing hard limit",
    r"credits are depleted",
    r"used all available credits",
    r"(?:out of|no) credits\b",
)
"""The same in words."""

OVERFLOW_WORDS = words(
    r"maximum context length",
    r"prompt is too long",
    r"exceeds? (?:the )?context limit",
    r"exceeds (?:the )?(?:available )?context",
    r"maximum allowed input length",
    r"input token count .{0,80}exceeds",
    r"reduce the length of the (?:messages|prompt)",
    r"context_length_exceeded|contextwindowexceeded",
    r"context window (?:is )?exceeded",
    r"greater than the context length",
    r"maximum prompt length is \d",
)
"""The conversation is longer than the model takes."""

MODEL_WORDS = words(
    r"\bmodels?\b.{0,160}?\b(?:not found|does not exist|is not available|not supported)",
    r"models/\S{1,160} is not found",
    r"not a valid model|\bmodel identifier is invalid\b",
    r"\bno such model\b",
    r"\b(?:unsupported|unknown|invalid|unrecognized) model\b",
    r"^model: \S{1,160}$",
)
"""There is no such model, or none for this request."""
