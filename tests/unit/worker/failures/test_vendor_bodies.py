"""Bodies as vendors word them, one a line of the data file, and the cause that each must have."""

import json
from pathlib import Path
from typing import Any

import pytest

from shared.failures import ProviderFault
from worker.failures.classify import classify

DATA = Path(__file__).parents[3] / "data" / "failures" / "vendor_bodies.jsonl"
ROWS = [json.loads(line) for line in DATA.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("row", ROWS, ids=[f"{row['status']} {row['cause']}" for row in ROWS])
def test_a_body_has_its_cause(row: dict[str, Any]):
    body = row["body"] if isinstance(row["body"], str) else json.dumps(row["body"])
    fault = ProviderFault(provider="custom", status=row["status"], body=body)
    assert classify(fault).cause == row["cause"]
