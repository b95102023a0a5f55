"""Storms: of many failures that say the same, the first keep their diagnostics, all keep a row.

Comes in: reports, in the order in which they are written. Goes out: the same reports, some of them
slim: without stack and metadata, and with the id of one that has both. Pure; the recorder has one.
"""

from typing import Final

import msgspec

from ops.store.fingerprint import group_hash
from shared.failures import ErrorReport

WHOLE_PER_MINUTE: Final = 50
"""Whole rows of one cause, worker and minute: the fifty-first stack tells nothing that is new, and
an outage makes thousands of 2 KB each."""
MAX_STORMS: Final = 5_000
"""Causes of a worker in a minute that are remembered; beyond that the oldest begins anew."""
_MINUTE_MS: Final = 60_000


class Storms:
    """Decides which reports keep their diagnostics."""

    def __init__(self, whole_per_minute: int = WHOLE_PER_MINUTE) -> None:
        self._whole_per_minute = whole_per_minute
        self._whole: dict[tuple[str, str, int], list[str]] = {}

    def calmed(self, report: ErrorReport) -> ErrorReport:
        """The report as it is to be written. The same one again gets the same answer."""
        if report.stack_trace is None and not report.metadata:
            return report
        storm = (group_hash(report), report.worker_id or "", report.created_ms // _MINUTE_MS)
        whole = self._whole.setdefault(storm, [])
        if len(self._whole) > MAX_STORMS:
            del self._whole[next(iter(self._whole))]
        # A batch comes again when the database was away: who was whole stays so.
        if report.id in whole:
            return report
        if len(whole) < self._whole_per_minute:
            whole.append(report.id)
            return report
        slim: dict[str, object] = {"diagnostics_of": whole[0]}
        return msgspec.structs.replace(report, stack_trace=None, metadata=slim)
