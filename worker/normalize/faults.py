"""Error objects of providers to raw facts.

Comes in: whatever stood in `error`. Goes out: `FaultReason`. Imported by `reply`. The category is
the classifier's, which reads the whole object.
"""

from worker.normalize.events import FaultReason
from worker.normalize.payloads import write_json
from worker.normalize.storable import scrub_text

NO_MESSAGE = "provider error"


def reason_of(error: object) -> FaultReason:
    """Code, message and status of an error object, string or list.

    `code` is the first of code, type and status that is set. A status is taken only where a number
    is called one: `code` is a word at some providers and not always HTTP's at the others.
    """
    if isinstance(error, list) and error:
        error = error[0]
    if not isinstance(error, dict):
        return FaultReason(message=_text(error))
    code = next((error[key] for key in ("code", "type", "status") if _is_set(error.get(key))), None)
    statuses = (error.get(key) for key in ("status", "status_code", "http_status"))
    status = next((number for number in statuses if type(number) is int), None)
    return FaultReason(
        code=None if code is None else scrub_text(str(code)),
        message=_text(error.get("message")),
        status=status,
    )


def serving_provider_of(error: object) -> str | None:
    """The host behind a router, where the error names it (OpenRouter's `metadata`)."""
    metadata = error.get("metadata") if isinstance(error, dict) else None
    name = metadata.get("provider_name") if isinstance(metadata, dict) else None
    return name if isinstance(name, str) and name else None


def _is_set(value: object) -> bool:
    return isinstance(value, str | int | float) and value != ""


def _text(value: object) -> str:
    if isinstance(value, str):
        return scrub_text(value)
    return scrub_text(write_json(value)) if value else NO_MESSAGE
