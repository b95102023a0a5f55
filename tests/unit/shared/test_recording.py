import random

import pytest

from shared.errors import WireError
from shared.recording import (
    BLOCK_BYTES,
    MAX_RECORDING_BYTES,
    Dropped,
    Received,
    Recording,
    Ticked,
    read_recording,
)


def test_a_recording_gives_its_entries_back_in_order():
    recording = Recording()
    recording.received(1.0, b"data: a\n\n")
    recording.ticked(1.25)
    recording.received(1.5, b"data: b\n\n")
    assert list(read_recording(recording.dump())) == [
        Received(at_s=1.0, data=b"data: a\n\n"),
        Ticked(at_s=1.25),
        Received(at_s=1.5, data=b"data: b\n\n"),
    ]


def test_an_empty_recording_has_no_entries():
    assert list(read_recording(Recording().dump())) == []


def test_a_long_recording_keeps_head_and_tail_and_says_what_it_dropped():
    rng = random.Random(7)
    pieces = [rng.randbytes(8 * 1024) for _ in range(400)]  # incompressible: 3.2 MB
    recording = Recording()
    for at_s, piece in enumerate(pieces):
        recording.received(at_s, piece)
    payload = recording.dump()
    assert len(payload) <= MAX_RECORDING_BYTES + BLOCK_BYTES
    entries = list(read_recording(payload))
    gaps = [entry for entry in entries if isinstance(entry, Dropped)]
    kept = [entry.data for entry in entries if isinstance(entry, Received)]
    assert len(gaps) == 1
    assert gaps[0].entries + len(kept) == len(pieces)
    at = entries.index(gaps[0])
    assert kept[:at] == pieces[:at]
    assert kept[at:] == pieces[len(pieces) - (len(kept) - at) :]


def test_a_compressible_recording_of_a_long_reply_is_kept_whole():
    recording = Recording()
    line = b'data: {"choices":[{"index":0,"delta":{"content":"word "}}]}\n\n'
    for at_s in range(50_000):  # 3 MB of a chat stream
        recording.received(at_s / 50, line)
    entries = list(read_recording(recording.dump()))
    assert len(entries) == 50_000


@pytest.mark.parametrize(
    "payload",
    [b"", b"\x80\x04K\x01.", b"{}", b"\x82\xa7version\x01\xa6blocks\x91\xc4\x03abc"],
    ids=["nothing", "pickle", "json", "broken block"],
)
def test_what_is_no_recording_is_refused(payload):
    with pytest.raises(WireError, match="not a recording"):
        list(read_recording(payload))
