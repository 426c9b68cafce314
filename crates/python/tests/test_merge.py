"""Merge operators: operands that nobody reads before writing."""

import keyrack
import pytest


def number(value):
    return value.to_bytes(8, "little", signed=True)


def open_spaces(path, **options):
    return keyrack.open_spaces(path, memory_budget=16 << 20, **options)


def test_a_counter_adds_up_in_stores_batches_and_transactions(path):
    with keyrack.open(path, merge_operator="counter") as db:
        db[b"visits"] = number(10)
        db.merge(b"visits", number(1), sync=True)
        with db.batch() as batch:
            batch.merge(b"visits", number(-5))
            batch.merge(b"new", number(2))
        with db.transaction() as tx:
            tx.merge(b"visits", number(100))
            assert tx[b"visits"] == number(106)
        assert dict(db.items()) == {b"new": number(2), b"visits": number(106)}
        kinds = [write.kind for change in db.changes() for write in change.writes]
        assert kinds == ["put", "merge", "merge", "merge", "merge"]
    # The operator is found by its name.
    with keyrack.open(path) as db:
        db.merge(b"visits", number(1))
        db.compact()
        assert db[b"visits"] == number(107)


def test_key_spaces_merge_too(path):
    with open_spaces(path, merge_operator="append:, ") as spaces:
        log, other = spaces.space("log"), spaces.space("other")
        log.merge(b"day", b"a", sync=True)
        with spaces.batch() as batch:
            batch.space("log").merge(b"day", b"b")
            batch.space("other").merge(b"day", b"x")
        with spaces.transaction() as tx:
            tx.space("log").merge(b"day", b"c")
        assert log[b"day"] == b"a, b, c" and other[b"day"] == b"x"


@pytest.mark.parametrize(
    "separator, merged", [("", b"ab"), ("::", b"a::b"), (b"\xff\0", b"a\xff\0b")]
)
def test_separators_are_text_or_bytes(path, separator, merged):
    kind = b"append:" if isinstance(separator, bytes) else "append:"
    with keyrack.open(path, merge_operator=kind + separator) as db:
        db.merge(b"key", b"a")
        db.merge(b"key", b"b")
        assert db[b"key"] == merged


def test_sets_grow(path):
    with keyrack.open(path, merge_operator="set-union") as db:
        db.merge(b"tags", keyrack.encode_set([b"red", b"big"]))
        db.merge(b"tags", keyrack.encode_set([b"red", bytearray(b"old")]))
        assert keyrack.decode_set(db[b"tags"]) == {b"big", b"old", b"red"}
        db[b"odd"] = b"\x09no set"
        db.merge(b"odd", keyrack.encode_set([]))
        with pytest.raises(keyrack.Usage, match="cannot merge what the key 'odd' has"):
            db[b"odd"]
    with pytest.raises(keyrack.Usage, match="no set"):
        keyrack.decode_set(b"\x09no set")
    with pytest.raises(TypeError):
        keyrack.encode_set(["text"])
    assert keyrack.decode_set(keyrack.encode_set([])) == set()


def test_operators_that_are_not_there_are_refused(path):
    for name in ("sum", "append", "counter:", ""):
        with pytest.raises(keyrack.Usage, match="merge_operator must be counter, set-union or"):
            keyrack.open(path, merge_operator=name)
    with pytest.raises(TypeError, match="merge_operator"):
        keyrack.open(path, merge_operator=7)
    with keyrack.open(path) as db:
        with pytest.raises(keyrack.Usage, match="opened with a merge_operator"):
            db.merge(b"key", b"")
    with keyrack.open(path, merge_operator="counter") as db:
        db.merge(b"key", number(1))
    with pytest.raises(keyrack.Usage, match="'keyrack.counter', not with 'keyrack.set-union'"):
        keyrack.open(path, merge_operator="set-union")
