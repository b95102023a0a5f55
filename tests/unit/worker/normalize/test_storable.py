from worker.normalize.storable import MAX_DEPTH, join_halves, mend, scrub


def test_scrubbing_reaches_keys_and_leaves_signatures_their_nul():
    assert scrub({"a\0": ["\ud83d\ude00", "\ude00", 1]}) == {"a": ["😀", "\ufffd", 1]}
    assert join_halves("a\0\ud83d") == "a\0\ufffd"


def test_mending_keeps_nul():
    assert mend({"\ud83d": ["\ude00\0", 1]}) == {"\ufffd": ["\ufffd\0", 1]}


def test_what_nests_too_deep_is_left_out():
    deep: object = "x"
    for _ in range(MAX_DEPTH + 1):
        deep = [deep]
    kept = scrub(deep)
    for _ in range(MAX_DEPTH):
        assert isinstance(kept, list)
        (kept,) = kept
    assert kept is None
