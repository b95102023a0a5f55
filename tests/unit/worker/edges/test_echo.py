"""The mask over what comes back: whole for any cutting, and nothing else is changed."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.edges.echo import EchoMask, masked, secrets_in

KEY = b"sk-sk-sk-abcdef"
OTHER = b"k-abcdefghijkl"
SECRETS = (KEY, OTHER)

texts = st.lists(
    st.sampled_from([KEY, OTHER, KEY[:-1], KEY[3:], OTHER[:5], b"s", b"sk-", b"data: x\n\n", b"-"]),
    max_size=8,
).map(b"".join)


def cut(text: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(place for place in places if place < len(text)), len(text)]
    return [text[start:end] for start, end in itertools.pairwise(edges)]


@given(texts, st.lists(st.integers(0, 120), max_size=12))
def test_no_secret_comes_through_wherever_the_stream_is_cut(text, places):
    mask = EchoMask(SECRETS)
    out = b"".join([*(mask.feed(piece) for piece in cut(text, places)), mask.flush()])
    assert len(out) == len(text)
    assert not any(secret in out for secret in SECRETS)
    assert all(new in (old, ord("*")) for old, new in zip(text, out, strict=True))
    if not any(secret in text for secret in SECRETS):
        assert out == text


def test_a_whole_event_is_never_held_back():
    mask = EchoMask(SECRETS)
    event = b'data: {"text": "sk-sk"}\n\n'
    assert mask.feed(event) == event
    assert mask.feed(b"data: sk-") == b"data: "
    assert mask.feed(b"ip\n\n") == b"sk-ip\n\n"
    assert mask.flush() == b""


def test_without_secrets_nothing_is_changed():
    mask = EchoMask(())
    assert mask.feed(KEY) == KEY
    assert masked(KEY, ()) == KEY


@pytest.mark.parametrize(
    ("header", "secrets"),
    [
        (("Authorization", "Bearer sk-0123456789abc"), (b"sk-0123456789abc",)),
        (("x-api-key", "0123456789abc"), (b"0123456789abc",)),
        (("x-tenant", "tenant-0123456789"), (b"tenant-0123456789",)),
        (("authorization", "Bearer ollama"), ()),
        (("anthropic-beta", "interleaved-thinking-2025-05-14"), ()),
        (("content-type", "application/json"), ()),
    ],
)
def test_a_header_is_secret_unless_it_is_known_to_be_harmless(header, secrets):
    assert secrets_in([header]) == secrets
