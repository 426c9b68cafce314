"""The change feed: what was written, in order, from a position on, as it comes."""

import contextlib
import signal
import threading
import time

import keyrack
import pytest

KEPT = {"memory_budget": 16 << 20, "log_retention_bytes": 64 << 20, "segment_bytes": 1 << 20}


def kinds(changes):
    return [[(write.kind, write.key) for write in change.writes] for change in changes]


def test_each_step_is_a_change_with_its_writes(db):
    db[b"a"] = b"1"
    with db.batch() as batch:
        batch.put(b"b", b"2", until=4102444800.125)
        batch.delete(b"a")
    with db.transaction() as tx:
        tx[b"c"] = b"3"
        del tx[b"a":b"b"]
    changes = list(db.changes())
    assert [len(change.writes) for change in changes] == [1, 2, 2]
    put, expiring, removal = changes[0].writes + changes[1].writes
    assert (put.kind, put.key, put.value, put.stop, put.until) == ("put", b"a", b"1", None, None)
    assert (expiring.kind, expiring.value, expiring.until) == ("put", b"2", 4102444800.125)
    assert (removal.kind, removal.key, removal.value) == ("delete", b"a", None)
    ranges = [write for write in changes[2].writes if write.kind == "delete_range"]
    assert [(write.key, write.stop, write.value) for write in ranges] == [(b"a", b"b", None)]
    positions = [change.position for change in changes]
    assert positions == sorted(set(positions)) and positions[-1] <= db.position()
    for index, position in enumerate(positions):
        later = [change.position for change in db.changes(position)]
        assert later == positions[index + 1 :]
    assert not any(change.is_ingestion for change in changes)


def test_a_feed_ends_without_waiting_and_goes_on_later(db):
    db[b"before"] = b""
    changes = db.changes(db.position())
    assert list(changes) == [] and not changes.wait(0)
    begin = changes.position
    db[b"one"] = b"1"
    db[b"two"] = b"2"
    assert changes.wait(0) and changes.wait() and changes.position == begin
    assert kinds(changes) == [[("put", b"one")], [("put", b"two")]]
    assert begin < changes.position <= db.position() and list(changes) == []
    del db[b"one"]
    assert kinds(changes) == [[("delete", b"one")]]


def test_a_wait_gives_up_after_its_time(db):
    changes = db.changes(db.position())
    begin = time.monotonic()
    assert not changes.wait(0.25)
    assert time.monotonic() - begin >= 0.25
    for timeout in (-1, float("nan"), float("inf")):
        with pytest.raises(keyrack.Usage, match="timeout must be"):
            changes.wait(timeout)
    with pytest.raises(TypeError, match="timeout is seconds or a timedelta, not str"):
        changes.wait("1")


def test_writers_wake_a_thread_that_waits(db):
    """Each write but the first comes after the one before it was seen."""
    changes, seen = db.changes(db.position()), threading.Semaphore(1)

    def write():
        for n in range(100):
            seen.acquire()
            db[b"%d" % n] = b""

    writer, keys = threading.Thread(target=write), []
    writer.start()
    while len(keys) < 100:
        assert changes.wait(60)
        keys += [write.key for change in changes for write in change.writes]
        seen.release()
    writer.join()
    assert keys == [b"%d" % n for n in range(100)]


def test_a_signal_ends_a_wait(db):
    class Stop(Exception):
        pass

    def stop(*_):
        raise Stop

    before = signal.signal(signal.SIGUSR1, stop)
    try:
        changes = db.changes(db.position())
        with pytest.raises(Stop):
            main = threading.main_thread().ident
            threading.Thread(target=lambda: signal.pthread_kill(main, signal.SIGUSR1)).start()
            changes.wait()
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_closing_the_store_ends_a_wait(path):
    db = keyrack.open(path)
    db[b"a"] = b""
    changes, waits, ended = db.changes(), threading.Event(), []
    assert kinds(changes) == [[("put", b"a")]]

    def wait():
        waits.set()
        with contextlib.suppress(keyrack.Closed):
            changes.wait()
            ended.append("a change that nobody wrote")

    thread = threading.Thread(target=wait)
    thread.start()
    waits.wait()
    db.close()
    thread.join()
    assert ended == []
    for call in (lambda: next(changes), lambda: changes.wait(0), lambda: changes.position):
        with pytest.raises(keyrack.Closed):
            call()
    keyrack.open(path).close()


def test_a_feed_goes_on_after_a_restart(path):
    with keyrack.open(path, **KEPT) as db:
        db[b"a"] = b"1"
        position = db.position()
        db[b"b"] = b"2"
    with keyrack.open(path, **KEPT) as db:
        db.flush()
        db[b"c"] = b"3"
        changes = db.changes(position)
        assert kinds(changes) == [[("put", b"b")], [("put", b"c")]]
        assert list(db.changes(changes.position)) == []


def test_replayed_changes_make_a_copy(db, tmp_path):
    db.update({b"a": b"1", b"b": b"2", b"c": b"3"})
    with keyrack.open(tmp_path / "copy", memory_budget=16 << 20) as copy:
        with db.snapshot() as snapshot:
            db[b"late"] = b"x"
            copy.update(snapshot.items())
            changes = db.changes(snapshot.position())
        with db.transaction() as tx:
            tx[b"a"] = b"9"
            del tx[b"b":b"c"]
        db.put(b"d", b"4", until=4102444800)
        for change in changes:
            copy.apply(change, sync=True)
        assert list(copy.items()) == list(db.items())
        assert list(copy) == [b"a", b"c", b"d", b"late"] and copy.expiry(b"d") == 4102444800


def test_what_the_log_does_not_keep_is_named(path):
    with keyrack.open(path, memory_budget=16 << 20, segment_bytes=64 << 10) as db:
        for n in range(10):
            db[b"%d" % n] = bytes(30_000)
        db.flush()
        with pytest.raises(keyrack.NotKept) as raised:
            db.changes(0)
        assert raised.value.position == 0 < raised.value.first <= db.position()
        list(db.changes(raised.value.first))
        with pytest.raises(keyrack.NotWritten) as raised:
            db.changes(1 << 40)
        assert raised.value.position == 1 << 40 > raised.value.end > 0
        assert list(db.changes(raised.value.end)) == []


def test_a_slow_feed_is_told_that_it_is_too_late(path):
    options = {"memory_budget": 16 << 20, "segment_bytes": 64 << 10, "feed_hold_bytes": 64 << 10}
    with keyrack.open(path, **options) as db:
        changes = db.changes()
        for n in range(40):
            db[b"%d" % n] = bytes(30_000)
        db.flush()
        with pytest.raises(keyrack.NotKept) as raised:
            list(changes)
        assert raised.value.first > 0 and str(raised.value.first) in str(raised.value)


def test_a_synced_feed_gives_what_is_on_the_disk(db):
    changes = db.changes(synced=True)
    db[b"a"] = b"1"
    assert kinds(changes) == [[("put", b"a")]]


def test_changes_have_a_time_if_somebody_marks_it(path):
    with keyrack.open(path, **KEPT) as db:
        changes, begin = db.changes(), time.time()
        times = []
        # There is a mark in a second.
        while not any(times):
            db[b"a"] = b""
            assert changes.wait(60)
            times += [change.time for change in changes]
        assert begin - 1 <= times[-1] <= time.time() + 1


def test_stores_without_a_feed_say_so(path, spaces):
    with keyrack.open(path, durability="none") as db, pytest.raises(keyrack.Usage):
        db.changes()
    with keyrack.open(path, read_only=True) as db:
        with pytest.raises(keyrack.Usage, match="reading only"):
            db.changes()
    with pytest.raises(keyrack.Usage, match="no feed"):
        spaces.snapshot().position()
    assert not hasattr(spaces, "changes")
