"""What the worker would make of a provider's answer: for operators, and for writing rules.

Comes in: status, headers and body of an answer, as saved from anywhere. Goes out: a `Verdict`. The
worker's own pure rooms decide, so that this cannot differ from what a turn does.
"""

import msgspec

from shared.causes import facts_of, fault_of, needs_operator, notice_of
from shared.failures import ProviderFault, display_code
from shared.i18n import Texts
from shared.turns import CredentialSource
from worker.failures.classify import classify
from worker.failures.decide import Action, Situation, decide
from worker.failures.facts import MAX_BODY_CHARS as MAX_BODY_CHARS


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """A classified failure with all that follows from it.

    Args:
        action: what the next attempt would change, in a fleet with another key and a fallback.
        alone: the same where there is only this key and this model.
        headline, tips, footer: what a channel shows. Nothing in them came from upstream.
        snippet: what the modal and the record keep: redacted, capped.
    """

    category: str
    cause: str
    family: str
    retryable: bool
    status: int | None
    code: str
    retry_after_s: float | None
    affordable_tokens: int | None
    parameter: str | None
    serving_provider: str | None
    action: Action
    alone: Action
    key_cooldown_s: float
    makes_row: bool
    fault: str
    headline: str
    tips: tuple[str, ...]
    footer: str
    snippet: str


def verdict(
    fault: ProviderFault,
    texts: Texts,
    *,
    source: CredentialSource = CredentialSource.SERVER,
    locale: str = "en",
) -> Verdict:
    """Classifies a fault and tells what the worker, the channel and the records would do."""
    error = classify(fault)
    notice = notice_of(error.cause, source)
    rich = decide(error, Situation(keys_left=1, fallbacks_left=1))
    return Verdict(
        category=error.category.value,
        cause=error.cause,
        family=facts_of(error.cause).family.value,
        retryable=error.retryable,
        status=error.status,
        code=display_code(error.code),
        retry_after_s=error.retry_after_s,
        affordable_tokens=error.affordable_tokens,
        parameter=error.parameter,
        serving_provider=error.serving_provider,
        action=rich.action,
        alone=decide(error, Situation()).action,
        key_cooldown_s=rich.key_cooldown_s,
        makes_row=needs_operator(error.cause, source),
        fault=fault_of(error.cause, source).value,
        headline=texts.text(notice.headline, locale),
        tips=tuple(texts.text(tip, locale) for tip in notice.tips),
        footer=texts.text(notice.footer, locale),
        snippet=error.message,
    )
