"""A store is a dictionary in the order of its keys."""

import array
import asyncio
import random
import shelve
import threading

import keyrack
import pytest


def test_a_store_answers_like_a_sorted_dictionary(db):
    """A model: every call, at random, on few keys, with flushes between."""
    draw = random.Random(7)
    model = {}
    for step in range(3000):
        key = b"%02d" % draw.randrange(40)
        value = b"%d" % step
        match draw.randrange(12):
            case 0 | 1 | 2:
                db[key] = value
                model[key] = value
            case 3:
                assert db.get(key) == model.get(key)
            case 4:
                if key in model:
                    del db[key], model[key]
                else:
                    with pytest.raises(KeyError) as raised:
                        del db[key]
                    assert raised.value.args == (key,)
            case 5:
                assert db.pop(key, None) == model.pop(key, None)
            case 6:
                assert db.setdefault(key, value) == model.setdefault(key, value)
            case 7:
                assert (key in db) == (key in model)
            case 8:
                other = b"%02d" % draw.randrange(40)
                inside = sorted(k for k in model if key <= k < other)
                assert list(db[key:other]) == [(k, model[k]) for k in inside]
                assert list(reversed(db[key:other])) == [(k, model[k]) for k in inside[::-1]]
                assert db.count(key, other) == len(inside)
            case 9:
                pairs = {b"%02d" % draw.randrange(40): value for _ in range(3)}
                db.update(pairs)
                model.update(pairs)
            case 10:
                keys = [b"%02d" % draw.randrange(50) for _ in range(5)]
                assert db.get_many(keys) == [model.get(k) for k in keys]
            case 11 if draw.randrange(20) == 0:
                del db[key : key + b"\xff"]
                model.pop(key, None)
                db.flush()
    assert list(db) == sorted(model)
    assert list(db.values()) == [model[key] for key in sorted(model)]
    assert dict(db.items()) == model
    assert list(reversed(db)) == sorted(model, reverse=True)
    db.clear()
    assert db.first() is None and db.last() is None and db.count() == 0


def test_a_store_survives_its_close(path):
    with keyrack.open(path) as db:
        db[b"key"] = b"value"
    assert db.closed
    with keyrack.open(path, read_only=True) as db:
        assert db[b"key"] == b"value"
        with pytest.raises(keyrack.Error):
            db[b"key"] = b"other"


@pytest.mark.parametrize("view", [bytes, bytearray, memoryview, lambda b: array.array("B", b)])
def test_whatever_shows_its_bytes_is_a_key_and_a_value(db, view):
    db[view(b"key")] = view(b"value")
    assert db[view(b"key")] == b"value"
    assert view(b"key") in db
    assert list(db[view(b"k") : view(b"l")]) == [(b"key", b"value")]
    assert db.compare_and_swap(view(b"key"), view(b"value"), view(b"next"))


def test_a_view_with_gaps_is_the_bytes_that_it_shows(db):
    db[memoryview(b"a-b-c-")[::2]] = memoryview(b"1.2.")[::2]
    assert dict(db.items()) == {b"abc": b"12"}


@pytest.mark.parametrize("key", ["text", 5, None, 1.5, object(), ("tuple",)])
def test_what_is_no_bytes_is_refused_with_the_remedy(db, key):
    for call in (
        lambda: db[key],
        lambda: db.get(key),
        lambda: key in db,
        lambda: db.__setitem__(key, b"value"),
        lambda: db.__setitem__(b"key", key),
        lambda: db.update({key: b"value"}),
        lambda: db.pop(key, None),
        lambda: db.batch().put(key, b""),
    ):
        with pytest.raises(TypeError, match="bytes"):
            call()
    assert db.first() is None
    if isinstance(key, str):
        with pytest.raises(TypeError, match=r"encode\(\)"):
            db[key]


def test_a_number_is_no_length_of_zeros(db):
    """`bytes(3)` is three zeros."""
    with pytest.raises(TypeError):
        db[b"key"] = 3


def test_empty_keys_and_values_and_all_bytes_are_kept(db):
    pairs = {b"": b"", b"\0": b"\0", b"\xff" * 3: bytes(range(256)), b"a": b""}
    db.update(pairs)
    assert dict(db.items()) == pairs
    assert list(db.keys(prefix=b"\xff")) == [b"\xff\xff\xff"]
    assert list(db.keys(prefix=b"")) == sorted(pairs)
    del db[:]
    assert list(db) == []


def test_a_value_that_no_log_takes_is_refused_and_nothing_is_written(db):
    with pytest.raises(keyrack.Usage):
        db[b"key"] = bytes(64 << 20)
    with pytest.raises(keyrack.Usage):
        db[bytes(64 << 20)] = b"value"
    assert list(db) == []
    db[b"key"] = bytes(8 << 20)
    assert db[b"key"] == bytes(8 << 20)


def test_a_missing_key_is_a_key_error_with_the_key(db):
    with pytest.raises(KeyError) as raised:
        db[b"missing"]
    assert raised.value.args == (b"missing",)
    with pytest.raises(KeyError):
        db.pop(b"missing")
    assert db.pop(b"missing", 7) == 7
    assert db.get(b"missing") is None and db.get(b"missing", 7) == 7
    with pytest.raises(TypeError, match="one default"):
        db.pop(b"missing", 1, 2)


def test_there_is_no_length_without_reading(db):
    with pytest.raises(TypeError):
        len(db)
    assert bool(db)


def test_slices_have_no_step_and_a_prefix_no_bounds(db):
    with pytest.raises(keyrack.Usage, match="reversed"):
        db[::2]
    with pytest.raises(keyrack.Usage, match="prefix"):
        db.items(b"a", prefix=b"b")
    with pytest.raises(TypeError, match="bytes"):
        db["a":"b"]


def test_slices_are_deleted_with_open_ends_too(db):
    keys = [b"a", b"b", b"c", b"d"]
    db.update({key: b"" for key in keys})
    del db[b"d":]
    del db[:b"b"]
    assert list(db) == [b"b", b"c"]


def test_swaps_and_counters_are_single_steps(db):
    assert db.compare_and_swap(b"key", None, b"1")
    assert not db.compare_and_swap(b"key", None, b"2")
    assert db.compare_and_swap(b"key", b"1", None)
    assert b"key" not in db
    assert [db.fetch_and_add(b"n", 5), db.fetch_and_add(b"n", -7), db.fetch_and_add(b"n")] == [0, 5, -2]
    db[b"n"] = b"no counter"
    with pytest.raises(keyrack.Usage):
        db.fetch_and_add(b"n")
    with pytest.raises(OverflowError):
        db.fetch_and_add(b"n", 1 << 70)


def test_options_are_checked_by_name(path):
    with pytest.raises(TypeError, match="memory_budgt is no option.*memory_budget"):
        keyrack.open(path, memory_budgt=1)
    with pytest.raises(TypeError, match="memory_budget"):
        keyrack.open(path, memory_budget="much")
    with pytest.raises(keyrack.Usage, match="block_bytes"):
        keyrack.open(path, block_bytes=-1)
    with pytest.raises(keyrack.Usage, match="durability"):
        keyrack.open(path, durability="maybe")
    with pytest.raises(ValueError, match="compression"):
        keyrack.open(path, compression="zip")
    with pytest.raises(keyrack.Error):
        keyrack.open(path, create_if_missing=False)
    with keyrack.open(path, compression=["none", "zstd:3"], durability="interval:5"):
        pass


def test_one_handle_has_a_directory(path):
    with keyrack.open(path) as db:
        with pytest.raises(keyrack.Locked, match="in use"):
            keyrack.open(path)
        assert repr(db) == f"<keyrack.Store {path}>"
    assert repr(db) == f"<keyrack.Store {path}, closed>"


def test_a_directory_that_cannot_be_is_an_error_of_the_machine():
    with pytest.raises(keyrack.Io):
        keyrack.open("/proc/no-such-place/store")
    with pytest.raises(TypeError):
        keyrack.open(7)


def test_damage_is_an_error_with_its_place(tmp_path):
    with keyrack.open(tmp_path / "db") as db:
        db.update({b"%05d" % n: b"value" * 20 for n in range(2000)})
        db.flush()
    tables = [file for file in (tmp_path / "db").iterdir() if file.suffix == ".table"]
    assert tables
    for table in tables:
        data = bytearray(table.read_bytes())
        for at in range(100, len(data) // 2, 97):
            data[at] ^= 0x55
        table.write_bytes(data)
    with keyrack.open(tmp_path / "db") as db:
        with pytest.raises(keyrack.Corruption) as raised:
            list(db.items())
    assert raised.value.path in map(str, tables) and raised.value.offset >= 0


def test_stats_and_properties_have_names(db):
    db[b"key"] = b"value"
    stats = db.stats()
    assert stats and all(isinstance(name, str) for name in stats)
    assert all(isinstance(number, float) for number in stats.values())
    assert int(db.property("keyrack.estimate-num-keys")) >= 1
    assert db.property("keyrack.nothing") is None


def test_a_checkpoint_is_a_store(db, path):
    db[b"key"] = b"value"
    db.checkpoint(path)
    db.compact()
    with keyrack.open(path) as copy:
        assert dict(copy.items()) == {b"key": b"value"}


def test_a_batch_happens_as_one_or_not_at_all(db):
    db[b"old"] = b""
    with db.batch(sync=True) as batch:
        batch[b"a"] = b"1"
        batch.update({b"b": b"2", b"c": b"3"})
        batch.delete_range(b"b", b"c")
        del batch[b"old"]
        assert len(batch) == 5
        assert b"a" not in db
    assert dict(db.items()) == {b"a": b"1", b"c": b"3"}
    with pytest.raises(ZeroDivisionError):
        with db.batch() as batch:
            batch[b"d"] = b"4"
            1 / 0
    assert b"d" not in db
    with pytest.raises(keyrack.Closed, match="another"):
        batch[b"d"] = b"4"
    with db.batch() as batch:
        batch[b"e"] = b"5"
        batch.write()
    assert b"e" in db
    with pytest.raises(keyrack.Usage, match="stop"):
        del db.batch()[b"a":]


def test_a_snapshot_is_one_moment(db):
    db.update({b"a": b"1", b"b": b"2"})
    with db.snapshot() as before:
        db.clear()
        assert dict(before.items()) == {b"a": b"1", b"b": b"2"}
        assert before[b"a"] == b"1" and b"b" in before and before.get(b"c") is None
        assert before.get_many([b"c", b"b"]) == [None, b"2"]
        left = before[b"a":]
        assert next(left) == (b"a", b"1")
    assert list(left) == [(b"b", b"2")]
    with pytest.raises(keyrack.Closed, match="released"):
        before[b"a"]


def test_backups_are_made_found_and_restored(db, tmp_path):
    backups = keyrack.Repository(tmp_path / "backups")
    db[b"key"] = b"one"
    first = db.backup(backups)
    db[b"key"] = b"two"
    second = db.backup(backups, bytes_per_second=1 << 30)
    assert [info.id for info in backups.backups()] == [first.id, second.id]
    assert backups.verify() == [] and backups.verify(first.id) == []
    for info, value in ((first, b"one"), (second, b"two")):
        target = tmp_path / value.decode()
        assert backups.restore(target, info.id).id == info.id
        with keyrack.open(target) as restored:
            assert restored[b"key"] == value
    assert backups.restore(tmp_path / "newest").id == second.id
    with pytest.raises(keyrack.Usage, match="not empty"):
        backups.restore(tmp_path / "newest")
    backups.delete(first.id)
    assert [info.id for info in backups.backups()] == [second.id]
    with pytest.raises(keyrack.Usage, match="no name of a backup"):
        backups.delete("../etc")
    with pytest.raises(keyrack.Error):
        keyrack.Repository(tmp_path / "nothing", create=False)


def test_programs_of_the_library_take_a_store_for_a_dictionary(db):
    """`shelve` keeps objects in any dictionary of bytes."""
    with shelve.Shelf(db) as shelf:
        shelf["ada"] = {"age": 36}
        shelf["bob"] = [1, 2]
        assert sorted(shelf) == ["ada", "bob"] and "ada" in shelf
        assert shelf.get("ada")["age"] == 36 and shelf.get("none", 7) == 7
        del shelf["bob"]
        assert list(shelf) == ["ada"]
    assert db.closed


def test_a_dictionary_is_made_of_a_store(db):
    db.update(zip([b"b", b"a"], [b"2", b"1"]))
    assert dict(db) == {b"a": b"1", b"b": b"2"} == {**db}
    assert sorted(db, reverse=True) == [b"b", b"a"]


def test_a_loop_of_asyncio_calls_from_other_threads(db):
    async def work():
        put = [asyncio.to_thread(db.put, b"%d" % n, b"x", sync=True) for n in range(20)]
        await asyncio.gather(*put)
        return await asyncio.to_thread(db.count)

    assert asyncio.run(work()) == 20


def test_a_batch_that_was_not_written_is_kept(spaces):
    spaces.space("gone")
    users = spaces.space("users")
    batch = spaces.batch()
    batch.space("users")[b"ada"] = b"36"
    batch.space("gone")[b"key"] = b"value"
    del spaces["gone"]
    for _ in range(2):
        with pytest.raises(keyrack.Usage, match="dropped"):
            batch.write()
        assert len(batch) == 2
    # A failure that the block has handled is one of the block, too.
    with pytest.raises(keyrack.Usage, match="dropped"):
        with batch:
            with pytest.raises(keyrack.Usage):
                batch.write()
    assert b"ada" not in users


def test_a_key_space_that_threads_make_and_drop_stays_usable(spaces):
    odd = []

    def make():
        for _ in range(300):
            try:
                spaces.space("x").get(b"key")
            except keyrack.Usage as error:
                # Dropped between the two calls.
                assert "dropped" in str(error), error
            except Exception as error:
                odd.append(error)

    def drop():
        for _ in range(300):
            try:
                del spaces["x"]
            except KeyError:
                pass
            except Exception as error:
                odd.append(error)

    threads = [threading.Thread(target=each) for each in (make, make, drop, drop)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert odd == []
    spaces.space("x")[b"key"] = b"value"
    assert spaces.space("x")[b"key"] == b"value"
