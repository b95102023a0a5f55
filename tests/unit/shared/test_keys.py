"""The one place that spells keys: all different, in their cell, partitions for ever the same."""

import inspect

import pytest

from shared import lifetimes
from shared.keys import ARQ_JOB, Keys

ARGUMENTS: dict[str, object] = {
    "turn_id": "m1",
    "attempt": 2,
    "lane": "5",
    "guild": "7",
    "provider_key": "openai:server",
    "provider": "openai",
    "worker_id": "w1",
    "process_id": "p1",
    "report_id": "r1",
    "channel_id": 9,
    "partition": 1,
}
NO_KEYS = {"partition_of", "out_of", "prefix", "partitions", "cell"}
SEALED = {"credentials", "credential_audit", "credential_pauses", "credential_loans"}


def spelled(keys: Keys) -> dict[str, str]:
    """Every key by the name of what spells it."""
    found: dict[str, str] = {}
    for name in dir(Keys):
        if name.startswith("_") or name in NO_KEYS:
            continue
        value = getattr(keys, name)
        if callable(value):
            wanted = inspect.signature(value).parameters
            value = value(**{argument: ARGUMENTS.get(argument, 1) for argument in wanted})
        found[name] = value
    return found


def test_keys_differ():
    found = spelled(Keys())
    assert len(set(found.values())) == len(found)
    assert len(found) > 25


def test_keys_stay_in_their_cell():
    for name, key in spelled(Keys("blue")).items():
        root = "tfsec:{blue}:" if name in SEALED else "tf:{blue}:"
        assert key.startswith(root if name != "job" else ARQ_JOB), name


@pytest.mark.parametrize(
    ("channel", "partition"), [(1, 3), (2, 1), (175928847299117063, 3), (2**63 - 1, 2)]
)
def test_a_channel_keeps_its_partition(channel: int, partition: int):
    """Frozen: a channel that moves while turns run would lose their order."""
    keys = Keys(partitions=4)
    assert keys.partition_of(channel) == partition
    assert keys.out_of(channel) == keys.out(partition)


def test_times_to_live_suit_each_other():
    assert lifetimes.MARK_TTL_MS > 12 * 3_600_000  # the backfill's horizon
    assert lifetimes.DONE_TTL_MS < lifetimes.TURN_TTL_MS < lifetimes.FAILED_TTL_MS
    assert lifetimes.CLAIM_TTL_MS < lifetimes.TURN_TTL_MS
    assert lifetimes.FAULT_TTL_MS == lifetimes.FAILED_TTL_MS
