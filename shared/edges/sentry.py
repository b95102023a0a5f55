"""Error reports to Sentry, for operators who use it; off without a DSN.

Comes in: reports that became rows of `error_logs`. Goes out: events. Only the recorder constructs
it, so that Sentry is told of what the operator is told of, once, whichever process failed.

The SDK is a client of our own, not the global one: with its defaults it patches libraries, sends
the locals of a stack, URLs with their queries and log lines, and puts its headers into requests to
providers. Nothing of that exists here: an event has what is written below, redacted once more.
"""

import hashlib
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from shared import __version__
from shared.errors import ConfigError
from shared.failures import ErrorReport
from shared.logs import fields
from shared.redaction import redact_value
from shared.secrets import Secret

PER_MINUTE: Final = 10
"""Events of one group: an outage makes thousands that say the same."""
MAX_GROUPS: Final = 1_000
"""Groups whose rate is remembered; with more, the oldest begins anew."""
MAX_VALUE_CHARS: Final = 2_000
SHUTDOWN_S: Final = 2.0
"""What unsent events get at the end, inside of what a drain may take."""
_KEPT: Final = frozenset(
    {"event_id", "timestamp", "level", "logger", "platform", "message", "logentry", "fingerprint",
     "tags", "contexts", "release", "environment", "sdk", "type"}
)  # fmt: skip
"""Parts of an event that may leave. A new version of the SDK may add others: they do not."""

_log = logging.getLogger(__name__)


class Sentry:
    """The way to Sentry.

    Args:
        dsn: where events go.
        secrets: of this process, removed from every text.
        clock_s: seconds that only grow.
        transport: takes envelopes instead of the network; for tests.

    Raises:
        ConfigError: the DSN is none.
    """

    def __init__(
        self,
        dsn: str,
        *,
        secrets: Iterable[Secret] = (),
        clock_s: Callable[[], float],
        transport: Any = None,
    ) -> None:
        # Here, so that without a DSN the SDK is not even imported.
        import sentry_sdk
        from sentry_sdk.utils import BadDsn

        self._secrets = (*secrets, Secret(dsn))
        self._clock_s = clock_s
        self._sent: dict[str, list[float]] = {}
        self._skipped: dict[str, int] = {}
        try:
            self._client = sentry_sdk.Client(
                dsn=dsn,
                release=__version__,
                default_integrations=False,
                auto_enabling_integrations=False,
                include_local_variables=False,
                include_source_context=False,
                max_breadcrumbs=0,
                trace_propagation_targets=[],
                max_value_length=MAX_VALUE_CHARS,
                send_client_reports=False,
                auto_session_tracking=False,
                server_name="",
                shutdown_timeout=SHUTDOWN_S,
                before_send=self._scrubbed,
                transport=transport,
            )
        except BadDsn:
            raise ConfigError("TURNFLEET_SENTRY_DSN is no DSN of a Sentry project") from None

    def capture(self, report: ErrorReport, fingerprint: Sequence[str]) -> bool:
        """Sends a report, unless its group has sent enough lately. Never raises.

        Args:
            report: what became a row.
            fingerprint: the parts of its group.

        Returns:
            Whether it was handed to the SDK, which sends in a thread of its own.
        """
        group = "\0".join(fingerprint)
        if not self._may_send(group):
            self._skipped[group] = self._skipped.get(group, 0) + 1
            return False
        event = _event(report, fingerprint, self._skipped.pop(group, 0))
        try:
            self._client.capture_event(event)
        except Exception as exc:  # noqa: BLE001 - telling of a failure must not make another one
            _log.warning("sentry.failed", extra=fields(kind=type(exc).__name__))
            return False
        return True

    def close(self) -> None:
        """Sends what waits, for `SHUTDOWN_S` at most."""
        self._client.close(timeout=SHUTDOWN_S)

    def _may_send(self, group: str) -> bool:
        now_s = self._clock_s()
        recent = [at_s for at_s in self._sent.pop(group, []) if now_s - at_s < 60.0]
        is_free = len(recent) < PER_MINUTE
        # Put back at the end: the first of the dictionary is the one longest unheard of.
        self._sent[group] = [*recent, now_s] if is_free else recent
        if len(self._sent) > MAX_GROUPS:
            oldest = next(iter(self._sent))
            del self._sent[oldest]
            self._skipped.pop(oldest, None)
        return is_free

    def _scrubbed(self, event: Any, _hint: Any) -> Any:
        kept = {name: value for name, value in event.items() if name in _KEPT}
        return redact_value(kept, self._secrets)


def event_id(report_id: str) -> str:
    """The id of a report's event: its own, so that a row leads to its event."""
    return report_id.replace("-", "")[:32]


def _event(report: ErrorReport, fingerprint: Sequence[str], skipped: int) -> Any:
    tags = {
        "provider": report.provider,
        "model": report.model,
        "category": report.category.value,
        "error_type": report.error_type,
        "stage": report.stage,
        "worker_version": report.worker_version,
        "credential_source": report.credential_source,
        "http_status": report.http_status,
    }
    guild = None if report.guild_id is None else str(report.guild_id).encode()
    turn = {
        "report_id": report.id,
        "turn_id": report.turn_id,
        "attempt": report.attempt,
        "key_id": report.key_id,
        "guild": guild and hashlib.blake2s(guild, digest_size=6).hexdigest(),
        "skipped_before": skipped or None,
    }
    return {
        "event_id": event_id(report.id),
        "level": "error",
        "logger": "turnfleet.errors",
        "timestamp": report.created_ms / 1000,
        "message": f"{report.error_type}: {report.message}"[:MAX_VALUE_CHARS],
        "fingerprint": list(fingerprint),
        "tags": {name: str(value) for name, value in tags.items() if value is not None},
        "contexts": {
            "turn": {name: value for name, value in turn.items() if value is not None},
            **({"stack": {"text": report.stack_trace}} if report.stack_trace else {}),
        },
    }
