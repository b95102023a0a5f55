"""Redaction for any secret in any two disguises: nothing is left, a second pass is idle."""

import base64
import html
import json
from collections.abc import Callable
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.redaction import redact, redact_value

ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_+/=.:$!"
secrets = st.text(ALPHABET, min_size=16, max_size=90)
RUN = 12

Encoder = Callable[[str], str]

ENCODERS: dict[str, Encoder] = {
    "raw": lambda text: text,
    "upper": lambda text: text.upper(),
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
    "base64url": lambda text: base64.urlsafe_b64encode(text.encode()).decode().rstrip("="),
    "basic": lambda text: base64.b64encode(f"u:{text}".encode()).decode(),
    "base32": lambda text: base64.b32encode(text.encode()).decode(),
    "hex": lambda text: text.encode().hex(),
    "hex pairs": lambda text: ":".join(f"{byte:02X}" for byte in text.encode()),
    "decimals": lambda text: ", ".join(str(byte) for byte in text.encode()),
    "hex list": lambda text: ", ".join(f"0x{byte:02x}" for byte in text.encode()),
    "hex dump": lambda text: text.encode().hex(" ", 2),
    "percent": lambda text: "".join(f"%{byte:02X}" for byte in text.encode()),
    "quoted": lambda text: quote(text, safe=""),
    "json": lambda text: json.dumps(text)[1:-1].replace("/", "\\/"),
    "unicode": lambda text: "".join(f"\\u{ord(char):04x}" for char in text),
    "entities": lambda text: "".join(f"&#{ord(char)};" for char in text),
    "html": html.escape,
    "reversed": lambda text: text[::-1],
    "wrapped": lambda text: "\n".join(text[at : at + 20] for at in range(0, len(text), 20)),
    "spaced": lambda text: " ".join(text),
}
# An encoding that ignores case undoes upper-casing; the others would keep another text.
PAIRS = [
    (one, two)
    for one in ENCODERS
    for two in ENCODERS
    if "upper" not in {one, two} or "raw" in {one, two}
]


@pytest.mark.parametrize(("inner", "outer"), PAIRS, ids=[f"{a} in {b}" for a, b in PAIRS])
def test_no_run_of_a_secret_is_left_under_two_encodings(inner, outer):
    secret = "corp-Internal/77+k3y=zzTop.Q8vLm0xYp2RtW"
    hidden = ENCODERS[outer](ENCODERS[inner](secret))
    text = redact(f"the endpoint said: {hidden} (rejected)", [secret])
    left = runs_of(secret, ENCODERS[inner], ENCODERS[outer])
    assert not [run for run in left if run.casefold() in text.casefold()]
    assert "[redacted:key]" in text
    assert text.endswith(" (rejected)")


def runs_of(secret: str, *encoders: Encoder) -> set[str]:
    """Every run of the secret that must not be left, in the disguise."""
    left = set()
    for at in range(len(secret) - RUN + 1):
        run = secret[at : at + RUN]
        left.add(run)
        for encode in encoders:
            run = encode(run)
        left.add(run)
    return left


@given(secret=secrets, names=st.tuples(*[st.sampled_from(sorted(set(ENCODERS) - {"upper"}))] * 2))
def test_no_run_of_a_random_secret_is_left(secret, names):
    inner, outer = (ENCODERS[name] for name in names)
    text = redact(f"<{outer(inner(secret))}>", [secret])
    assert not [run for run in runs_of(secret, inner, outer) if run in text]
    assert "[redacted:" in text


@given(text=st.text(max_size=300), known=st.lists(secrets, max_size=2))
def test_redaction_is_idempotent(text, known):
    once = redact(text, known)
    assert redact(once, known) == once


pieces = st.sampled_from(
    [
        "authorization: Bearer ",
        "[redacted:key]",
        "api_key=",
        "sk-abcdefghijklmnop1234",
        "'",
        " ",
        "&token=",
        "https://u:",
        "@",
        "x" * 20,
        "[redacted:",
        "]",
        "eyJhbGciOiJI.eyJzdWIiOiIx",
        "/",
        "=",
        ".",
        "corp-k3y-0123456789",
    ]
)


@given(parts=st.lists(pieces, max_size=12))
def test_redaction_of_markers_among_shapes_is_idempotent(parts):
    once = redact("".join(parts), ["corp-k3y-0123456789"])
    assert redact(once, ["corp-k3y-0123456789"]) == once


@given(secret=secrets, depth=st.integers(0, 3))
def test_metadata_is_redacted_in_keys_and_values(secret, depth):
    value: object = {secret: [secret, {"note": secret}]}
    for _ in range(depth):
        value = {"inner": [value]}
    assert secret not in json.dumps(redact_value(value, [secret]), ensure_ascii=False)
