"""The wire form of our values: every encoder and decoder, built once, and the version.

Comes in: values or bytes. Goes out: bytes or values. JSON, so that an operator can read a record
with any Redis client. Wire types only grow: new fields have defaults, tags are never reused,
unknown fields are ignored. Pure; anyone may import it.
"""

from typing import Final, TypeVar

import msgspec

from shared.alerts import Alert
from shared.at_rest import opened, sealed
from shared.errors import RequestTooLarge, WireError, WireVersionError
from shared.failures import ErrorReport, FaultDetails
from shared.segments import TurnEvent
from shared.summaries import TurnSummary
from shared.turns import MAX_REQUEST_BYTES, Route, TurnOutcome, TurnRequest

T = TypeVar("T")

WIRE_VERSION = 1
"""Raised only when an old reader could misread a new message; then both are read for a release."""

UNREADABLE: Final = (msgspec.DecodeError, RecursionError)
"""What a decoder raises over bytes that are no message: a thousand levels are no `DecodeError`."""

encode_json = msgspec.json.Encoder().encode
encode_msgpack = msgspec.msgpack.Encoder().encode

_turn_request = msgspec.json.Decoder(TurnRequest)
_turn_event = msgspec.json.Decoder(TurnEvent)
_route = msgspec.json.Decoder(Route)
_report = msgspec.json.Decoder(ErrorReport)
_outcome = msgspec.json.Decoder(TurnOutcome)
_details = msgspec.json.Decoder(FaultDetails)
_summary = msgspec.json.Decoder(TurnSummary)
_alert = msgspec.json.Decoder(Alert)


class _Version(msgspec.Struct):
    version: int = WIRE_VERSION


_version = msgspec.json.Decoder(_Version)


def encode_turn_request(request: TurnRequest) -> bytes:
    """Encodes a turn request, sealed where the deployment has a key for that.

    Raises:
        RequestTooLarge: more than `MAX_REQUEST_BYTES`.
    """
    payload = encode_json(request)
    if len(payload) > MAX_REQUEST_BYTES:
        raise RequestTooLarge(
            f"the turn request has {len(payload)} bytes, at most {MAX_REQUEST_BYTES} are taken; "
            "send less history, or images as addresses"
        )
    return sealed(payload)


def decode_turn_request(payload: bytes) -> TurnRequest:
    """Decodes a turn request.

    Raises:
        WireVersionError: another version wrote it.
        WireError: it is no turn request (pickle, cut JSON, a field of a wrong type, sealed).
    """
    payload = opened(payload)
    version = _read(_version, payload, "a turn request").version
    if version != WIRE_VERSION:
        raise WireVersionError(
            f"the turn request has version {version}, this worker reads {WIRE_VERSION}; "
            "finish the deploy, then replay the turn"
        )
    return _read(_turn_request, payload, "a turn request")


def decode_turn_event(payload: bytes) -> TurnEvent:
    """Decodes an event of an out stream. Raises `WireError` on anything else."""
    return _read(_turn_event, payload, "a turn event")


def decode_route(payload: bytes) -> Route:
    """Decodes a route. Raises `WireError` on anything else."""
    return _read(_route, payload, "a route")


def decode_report(payload: bytes) -> ErrorReport:
    """Decodes an error report. Raises `WireError` on anything else."""
    return _read(_report, payload, "an error report")


def decode_outcome(payload: bytes) -> TurnOutcome:
    """Decodes a turn's outcome. Raises `WireError` on anything else."""
    return _read(_outcome, payload, "a turn outcome")


def decode_fault_details(payload: bytes) -> FaultDetails:
    """Decodes what the modal shows. Raises `WireError` on anything else."""
    return _read(_details, payload, "the details of a fault")


def decode_summary(payload: bytes) -> TurnSummary:
    """Decodes the summary of a turn. Raises `WireError` on anything else."""
    return _read(_summary, payload, "the summary of a turn")


def decode_alert(payload: bytes) -> Alert:
    """Decodes an alert. Raises `WireError`: it is none, or of a newer version."""
    return _read(_alert, payload, "an alert")


def _read(decoder: msgspec.json.Decoder[T], payload: bytes, what: str) -> T:
    try:
        return decoder.decode(payload)
    except UNREADABLE as exc:
        raise WireError(f"not {what}: {exc}") from exc
