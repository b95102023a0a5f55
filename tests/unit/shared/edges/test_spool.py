"""The spool: nothing acknowledged is lost, whatever killed the process, and the disk is bounded."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from shared.edges.spool import Spool, lines_of


@pytest.fixture
def spool_of(tmp_path: Path) -> Iterator[Callable[..., Spool]]:
    with contextlib.ExitStack() as stack:

        def make(name: str, **sizes: int) -> Spool:
            return stack.enter_context(contextlib.closing(Spool(tmp_path / "spool", name, **sizes)))

        yield make


def drain(spool: Spool) -> list[bytes]:
    lines: list[bytes] = []
    for path in spool.take():
        lines += lines_of(path)
        spool.discard(path)
    return lines


def test_lines_come_out_once_in_order(spool_of: Callable[..., Spool]):
    spool = spool_of("w", part_bytes=20)
    lines = [f"line {number}".encode() for number in range(10)]
    for line in lines:
        spool.append(line)
    assert drain(spool) == lines
    assert drain(spool) == []


def test_lines_added_while_sending_go_to_a_new_file(spool_of: Callable[..., Spool]):
    spool = spool_of("w")
    spool.append(b"1")
    (path,) = spool.take()
    spool.append(b"2")
    assert list(lines_of(path)) == [b"1"]
    spool.discard(path)
    assert drain(spool) == [b"2"]


def test_a_full_ring_drops_the_oldest_and_counts(spool_of: Callable[..., Spool]):
    spool = spool_of("w", ring_bytes=100, part_bytes=20)
    for number in range(100):
        spool.append(b"%09d" % number)
    kept = drain(spool)
    assert kept[-1] == b"%09d" % 99
    assert len(kept) + spool.dropped == 100
    assert 8 <= len(kept) <= 10


def test_an_empty_directory_has_nothing(spool_of: Callable[..., Spool]):
    assert spool_of("w").take() == []


def test_files_of_a_living_process_are_left_to_it(spool_of: Callable[..., Spool]):
    living, other = spool_of("living"), spool_of("other")
    living.append(b"mine")
    assert other.take() == []
    assert drain(living) == [b"mine"]


def test_files_of_a_closed_spool_belong_to_the_next(spool_of: Callable[..., Spool], tmp_path: Path):
    first = spool_of("first")
    first.append(b"left")
    first.close()
    assert drain(spool_of("second")) == [b"left"]
    assert list((tmp_path / "spool").iterdir()) == []


def test_files_of_a_killed_process_belong_to_the_next(
    spool_of: Callable[..., Spool], tmp_path: Path
):
    code = (
        "import os, pathlib; from shared.edges.spool import Spool;"
        f"spool = Spool(pathlib.Path({str(tmp_path / 'spool')!r}), 'killed');"
        "spool.append(b'kept'); os.kill(os.getpid(), 9)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False)
    assert done.returncode == -9
    assert drain(spool_of("next")) == [b"kept"]


def test_a_line_cut_by_a_crash_is_no_line(spool_of: Callable[..., Spool], tmp_path: Path):
    (tmp_path / "spool").mkdir()
    (tmp_path / "spool" / "dead.000001.ndjson").write_bytes(b'{"a":1}\n{"b":')
    assert drain(spool_of("next")) == [b'{"a":1}']


def test_a_new_process_of_the_same_name_keeps_what_was_there(
    spool_of: Callable[..., Spool], tmp_path: Path
):
    (tmp_path / "spool").mkdir()
    (tmp_path / "spool" / "w.000001.ndjson").write_bytes(b"old\n")
    spool = spool_of("w")
    spool.append(b"new")
    assert drain(spool) == [b"old", b"new"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_raises_and_leaves_no_half_line(spool_of: Callable[..., Spool], tmp_path: Path):
    spool = spool_of("w")
    spool.append(b"before")
    assert len(spool.take()) == 1
    link = tmp_path / "spool" / "w.000002.ndjson"
    link.symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left"):
        spool.append(b"lost")
    link.unlink()
    spool.append(b"after")
    assert drain(spool) == [b"before", b"after"]


def test_files_are_private(spool_of: Callable[..., Spool]):
    spool = spool_of("w")
    spool.append(b"x")
    (path,) = spool.take()
    assert path.stat().st_mode & 0o077 == 0
    assert path.parent.stat().st_mode & 0o077 == 0
