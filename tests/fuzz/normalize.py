"""A fuzz target for the normalizer: whatever the bytes and their cutting, nothing raises.

Run: `python -m tests.fuzz.normalize [--seconds 60] [--seed N] [FILE...]`. Without a coverage-guided
fuzzer it mutates streams of every wire format and the given files (recordings, crashes); with one,
`TestOneInput` is the entry point (`atheris.Setup(sys.argv, TestOneInput)`). A finding is kept in a
file `finding-<seed>-<run>.sse`, and the run ends with exit code 1.
"""

import argparse
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from tests.support import wire
from worker.normalize.events import Done, StreamEvent, StreamFailed, event_fields
from worker.providers import normalizer_for

PROVIDERS = ("custom", "openai", "anthropic", "google", "openrouter")
MAX_PIECE = 64
TOKENS = (
    *(b"\n", b"\r", b"\n\n", b"data: ", b"event: error\n", b"[DONE]", b"{", b"}", b"[", b"]", b'"'),
    *(
        b"\\",
        b"\\ud83d",
        b"\\u0000",
        b"null",
        b"-1",
        b"1e999",
        b"\xff",
        b"\xef\xbb\xbf",
        b'"id":""',
    ),
    *(b'"index":', b'"type":', b'"error":', b'"delta":', b'"tool_calls":', b'"arguments":'),
)


def TestOneInput(data: bytes) -> None:  # noqa: N802  # the name that libFuzzer's drivers look for
    """Feeds the bytes to every provider, in pieces whose sizes come from the bytes themselves."""
    for provider in PROVIDERS:
        whole = run(provider, [data])
        assert run(provider, list(pieces(data))) == whole
        terminal = [event for event in whole if isinstance(event, Done | StreamFailed)]
        assert terminal == whole[-1:]
        for event in whole:
            msgspec.json.encode(event_fields(event)).decode()


def run(provider: str, chunks: list[bytes]) -> list[StreamEvent]:
    """The events of a stream."""
    normalizer = normalizer_for(provider, "m", ("roll", "search"))
    events = [event for chunk in chunks for event in normalizer.feed(chunk)]
    return events + normalizer.flush()


def pieces(data: bytes) -> Iterator[bytes]:
    """The bytes in pieces; each size is told by the byte before it."""
    at = 0
    while at < len(data):
        size = 1 + data[at - 1] % MAX_PIECE
        yield data[at : at + size]
        at += size


def seeds() -> list[bytes]:
    """A stream of each wire format."""
    call = wire.chat_call("roll", '{"a":1}', index=0, id="c")
    created = {"type": "response.created", "response": {"id": "r", "model": "m"}}
    delta = {"type": "response.output_text.delta", "output_index": 0, "delta": "Hi"}
    completed = {"type": "response.completed", "response": {"status": "completed"}}
    block = {"type": "tool_use", "id": "t", "name": "roll", "input": {}}
    text = {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "a"}}
    return [
        wire.sse(wire.chat({"content": "Hi"}), call, wire.STOP, wire.DONE),
        wire.named(created, delta, completed),
        wire.claude({"type": "content_block_start", "index": 0, "content_block": block}, text),
        wire.sse(wire.gemini({"text": "Hi"}), wire.gemini(finish="STOP")),
        wire.body({"choices": [{"message": {"content": "Hi"}}]}),
    ]


def mutated(data: bytes, source: random.Random) -> bytes:
    """The bytes with a few places overwritten, cut out, doubled or filled with tokens."""
    body = bytearray(data)
    for _ in range(source.randint(1, 8)):
        start = source.randrange(len(body) + 1)
        end = min(len(body), start + source.randint(0, 40))
        put = source.choice((b"", bytes(body[start:end]) * 2, source.choice(TOKENS)))
        body[start:end] = put
    return bytes(body)


def main() -> int:
    """Mutates and runs until the time is over."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=random.randrange(2**32))
    parser.add_argument("files", nargs="*", type=Path)
    options = parser.parse_args()
    source = random.Random(options.seed)
    pool = seeds() + [path.read_bytes() for path in options.files]
    end, runs = time.monotonic() + options.seconds, 0
    while time.monotonic() < end:
        data = mutated(source.choice(pool), source)
        try:
            TestOneInput(data)
        except Exception as exc:  # noqa: BLE001  # whatever is raised is the finding
            path = Path(f"finding-{options.seed}-{runs}.sse")
            path.write_bytes(data)
            print(f"{path}: {type(exc).__name__}: {str(exc)[:200]}")  # noqa: T201
            return 1
        runs += 1
    print(f"seed {options.seed}: {runs} runs, nothing raised")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
