"""Cuttings of a byte string: the ways in which a network may deliver the same bytes."""

import itertools
from collections.abc import Iterable, Iterator


def pieces(data: bytes, size: int) -> list[bytes]:
    """Equal pieces of `size` bytes; the last may be shorter."""
    return [data[at : at + size] for at in range(0, len(data), size)]


def cut_at(data: bytes, places: Iterable[int]) -> list[bytes]:
    """Pieces that end at each of `places`; equal places give empty pieces."""
    borders = [0, *sorted(places), len(data)]
    return [data[start:end] for start, end in itertools.pairwise(borders)]


def two_way(data: bytes, *, step: int = 1) -> Iterator[list[bytes]]:
    """Cuttings in two, at every `step`-th place, the empty pieces at both ends included."""
    for place in range(0, len(data) + 1, step):
        yield [data[:place], data[place:]]


def common(data: bytes) -> Iterator[list[bytes]]:
    """Whole, byte by byte, and in pieces of 2, 3 and 7 bytes."""
    yield [data]
    for size in (1, 2, 3, 7):
        yield pieces(data, size)
