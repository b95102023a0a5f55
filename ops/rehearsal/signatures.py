"""Signatures of reasoning, as vendors give them: only the model that signed accepts them back.

Comes in: vendor, model, and what is signed. Goes out: a base64 text, or whether one is ours.
Judges and voices import it. Nothing is secret here: it is a rehearsal.
"""

import base64
import binascii
import hashlib

_MARK = b"rehearsal"


def sign(vendor: str, model: str, text: str) -> str:
    """The signature that a vendor's model gives a text."""
    return base64.b64encode(_head(vendor, model) + _digest(text)).decode()


def is_signed_by(signature: str, vendor: str, model: str, text: str | None = None) -> bool:
    """Whether a model of a vendor made the signature; with `text`, for exactly that text."""
    try:
        raw = base64.b64decode(signature, validate=True)
    except binascii.Error:
        return False
    head = _head(vendor, model)
    return raw.startswith(head) and (text is None or raw == head + _digest(text))


def _head(vendor: str, model: str) -> bytes:
    return b"\0".join((_MARK, vendor.encode(), model.encode(), b""))


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:12]
