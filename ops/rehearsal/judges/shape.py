"""What every judge shares: the shape of a decoded body, and the pairing of tool calls and results.

Comes in: decoded JSON and a Struct that describes it. Goes out: the Struct, or a complaint in the
vendor's manner. Judges may import it.
"""

from typing import TypeVar

import msgspec

from ops.rehearsal.values import Facts

S = TypeVar("S", bound=msgspec.Struct)


class Complaint(Exception):
    """The request is refused. `param` names the place where the vendor would."""

    def __init__(self, message: str, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.code = code


def shaped(body: object, kind: type[S]) -> S:
    """Converts a decoded body.

    Raises:
        Complaint: a missing, unknown or ill-typed field.
    """
    try:
        return msgspec.convert(body, kind)
    except msgspec.ValidationError as exc:
        message, _, path = str(exc).partition(" - at `$")
        param = path.rstrip("`").lstrip(".") or None
        raise Complaint(
            f"Invalid request: {message} at {param or 'the top level'}.", param
        ) from exc


def bearer_token(facts: Facts) -> str | None:
    """The key of OpenAI's two APIs."""
    scheme, _, key = facts.headers.get("authorization", "").partition(" ")
    return key.strip() or None if scheme.lower() == "bearer" else None


def text_of(content: object) -> str:
    """The text of a string, of a list of parts, or of nothing; parts without text count nothing."""
    if content is None or isinstance(content, str):
        return content or ""
    parts = content if isinstance(content, list) else [content]
    return "\n".join(text for part in parts if isinstance(text := getattr(part, "text", None), str))
