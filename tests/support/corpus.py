"""The corpus as pytest parameters: exact cases in JSON files, and recorded streams.

Comes in: the directory named by `TURNFLEET_CORPUS` (default `tests/data/corpus`), recordings from
its folder `recordings` or from `../shared/corpus/recordings` beside the checkout. Goes out: a list
of `pytest.param`, one a case, for `@pytest.mark.parametrize("case", cases(...))`. A file that is
missing becomes one skipped test that names it. `tests/conformance/conftest.py` adds `--area` and
the count per file.
"""

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
CORPUS = Path(os.environ.get("TURNFLEET_CORPUS") or ROOT / "tests/data/corpus").expanduser()
EVERY_CUT = "TURNFLEET_EVERY_CUT"
"""Set to cut every case at every place; `pytest tests/conformance --every-cut` sets it."""
FILES = (
    "normalizer_cases.json",
    "partial_json_cases.json",
    "provider_cases.jsonl",
    "sanitize_cases.json",
    "segment_cases.json",
    "sse_cases.json",
)


@dataclass(frozen=True)
class Case:
    """One case: the file it stands in, its name there, its area, and the object as it stands."""

    file: str
    name: str
    area: str
    data: dict[str, Any]

    def __getitem__(self, key: str) -> Any:
        return self.data[key]

    def get(self, key: str, default: Any = None) -> Any:
        return self.data.get(key, default)


@dataclass(frozen=True)
class Recording:
    """A recorded stream: where its bytes lie, and what the SDKs make of them."""

    file: str
    name: str
    area: str
    path: Path
    data: dict[str, Any]


def cuts_everywhere() -> bool:
    """Whether this run was asked to cut every case at every place."""
    return os.environ.get(EVERY_CUT, "") not in ("", "0")


def recordings_dir() -> Path:
    """Where recordings are looked for; the folder may be missing."""
    own = CORPUS / "recordings"
    return own if own.is_dir() else ROOT.parent / "shared" / "corpus" / "recordings"


def is_empty() -> bool:
    """True where not one file of the corpus is there: a wrong directory, not a small one."""
    names = (*FILES, "recordings/expected.json")
    return not any((CORPUS / name).is_file() for name in names)


def read_cases(file: str) -> list[Case]:
    """The cases of a file, all of them; none where the file is missing."""
    path = CORPUS / file
    if not path.is_file():
        return []
    # The standard decoder: some cases hold lone surrogates, which no strict decoder takes.
    text = path.read_text(encoding="utf-8")
    rows = map(json.loads, filter(str.strip, text.split("\n"))) if path.suffix == ".jsonl" else None
    listed = list(rows) if rows is not None else json.loads(text)["cases"]
    return [_case(file, number, row) for number, row in enumerate(listed)]


def cases(file: str, *, where: Callable[[Case], bool] = lambda case: True) -> list[Any]:
    """Parameters for the cases of `file` that `where` chooses."""
    if not (CORPUS / file).is_file():
        return [_missing(file, f"{file} is not in {CORPUS}")]
    found = [case for case in read_cases(file) if where(case)]
    return [pytest.param(case, id=case.name) for case in found]


def recordings() -> list[Any]:
    """Parameters for every recorded stream that `expected.json` names."""
    folder, file = recordings_dir(), "recordings/expected.json"
    if not _expected().is_file():
        return [_missing(file, f"no recordings: expected.json is not in {folder}")]
    rows = json.loads(_expected().read_text(encoding="utf-8"))
    return [pytest.param(recording, id=recording.name) for recording in _recordings(file, rows)]


def _recordings(file: str, rows: dict[str, Any]) -> Iterator[Recording]:
    for name, row in sorted(rows.items()):
        path = recordings_dir() / row["dialect"] / f"{name}.sse"
        yield Recording(file=file, name=name, area="recordings", path=path, data=row)


def _expected() -> Path:
    return recordings_dir() / "expected.json"


def _case(file: str, number: int, row: dict[str, Any]) -> Case:
    stem = file.split("_cases", maxsplit=1)[0]
    name = str(row.get("id") or row.get("name") or number)
    return Case(file=file, name=name, area=str(row.get("area") or stem), data=row)


def _missing(file: str, reason: str) -> Any:
    case = Case(file=file, name="missing", area="missing", data={})
    return pytest.param(case, id=f"{file} is missing", marks=pytest.mark.skip(reason=reason))
