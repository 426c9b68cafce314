"""Iterators: one moment, both ends, and what ends them."""

import gc

import keyrack
import pytest

COUNT = 1000


@pytest.fixture
def full(db):
    db.update({b"%04d" % n: b"v%d" % n for n in range(COUNT)})
    return db


def test_both_ends_of_one_range_meet_and_give_each_entry_once(full):
    for pattern in ("fb", "ffb", "bbf", "f", "b", "fffffffb"):
        front, turn, seen = full.keys(), 0, {"f": [], "b": []}
        back = reversed(front)
        while True:
            end = pattern[turn % len(pattern)]
            turn += 1
            key = next(front if end == "f" else back, None)
            if key is None:
                break
            seen[end].append(key)
        assert next(front, None) is None and next(back, None) is None
        assert seen["f"] + seen["b"][::-1] == [b"%04d" % n for n in range(COUNT)]


def test_a_range_is_the_moment_of_its_making(full):
    items = full.items()
    full.clear()
    full[b"0000"] = b"later"
    assert list(items) == [(b"%04d" % n, b"v%d" % n) for n in range(COUNT)]


def test_a_range_that_is_empty_or_turned_around_gives_nothing(full):
    assert list(full[b"5":b"4"]) == [] and list(full[b"x":b"y"]) == []
    assert list(reversed(full[b"5":b"4"])) == []


@pytest.mark.parametrize("start", [0, 1, 5, 400])
def test_a_range_of_a_closed_store_raises_and_frees_the_directory(tmp_path, start):
    with keyrack.open(tmp_path / "db") as db:
        db.update({b"%04d" % n: b"" for n in range(COUNT)})
        db.flush()
        ranges = [db.items(), reversed(db.items()), db.keys(), db.snapshot().items()]
        ranges.append(db.transaction().items())
        for entries in ranges:
            for _ in range(start):
                next(entries)
    for entries in ranges:
        with pytest.raises(keyrack.Closed):
            next(entries)
        with pytest.raises(keyrack.Closed):
            next(reversed(entries))
    # The ranges are still there, and keep nothing of the store open.
    with keyrack.open(tmp_path / "db") as again:
        assert again.count() == COUNT


def test_a_range_outlives_the_names_of_its_store(tmp_path):
    db = keyrack.open(tmp_path / "db")
    db.update({b"a": b"1", b"b": b"2"})
    items = db.items()
    del db
    gc.collect()
    assert list(items) == [(b"a", b"1"), (b"b", b"2")]
    del items
    gc.collect()
    keyrack.open(tmp_path / "db").close()


def test_large_values_are_given_whole_from_both_ends(db):
    sizes = [0, 1, 70_000, 1 << 20, 3]
    db.update({b"%d" % n: bytes([n]) * size for n, size in enumerate(sizes)})
    assert [len(value) for value in db.values()] == sizes
    assert [len(value) for value in reversed(db.values())] == sizes[::-1]
