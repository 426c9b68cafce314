"""Threads, processes, ends: nothing crashes, hangs or leaks."""

import copy
import ctypes
import gc
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import tracemalloc

import keyrack
import pytest


def script(text, *arguments):
    """A program of its own, with a limit: what hangs fails."""
    command = [sys.executable, "-c", textwrap.dedent(text), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_closing_is_idempotent_and_ends_everything(path):
    db = keyrack.open(path)
    db[b"key"] = b"value"
    tx, snap, batch, items = db.transaction(), db.snapshot(), db.batch(), db.items()
    changes = db.changes()
    batch[b"a"] = b"b"
    for _ in range(3):
        db.close()
    for call in (
        lambda: db[b"key"],
        lambda: db.get(b"key"),
        lambda: b"key" in db,
        lambda: db.__setitem__(b"key", b""),
        lambda: db.items(),
        lambda: db.transaction(),
        lambda: db.snapshot(),
        lambda: db.batch(),
        lambda: db.flush(),
        lambda: db.stats(),
        lambda: db.retry(print),
        lambda: tx[b"key"],
        lambda: tx.commit(),
        lambda: snap[b"key"],
        lambda: batch.write(),
        lambda: next(items),
        lambda: next(changes),
        lambda: db.changes(),
    ):
        with pytest.raises(keyrack.Closed):
            call()
    with db:
        pass
    with keyrack.open(path) as db:
        assert dict(db.items()) == {b"key": b"value"}


def test_threads_share_a_store_that_one_of_them_closes(path):
    """Whatever the others are doing gets an answer, or is told that the store is closed."""
    db = keyrack.open(path)
    db.update({b"%03d" % n: bytes(100) for n in range(500)})
    go, odd = threading.Barrier(5), []

    def work(call):
        go.wait()
        try:
            while True:
                call()
        except keyrack.Closed:
            pass
        except BaseException as error:
            odd.append(error)

    def commit():
        with db.transaction() as tx:
            tx[b"tx"] = tx[b"001"]

    calls = [
        lambda: list(db.items()),
        lambda: db.put(b"x", bytes(1000)),
        lambda: db.get_many([b"001", b"x"]),
        commit,
    ]
    threads = [threading.Thread(target=work, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    go.wait()
    for _ in range(20):
        list(db.keys())
    db.close()
    for thread in threads:
        thread.join()
    assert odd == []
    with keyrack.open(path) as db:
        assert db.count() >= 500


def test_one_iterator_that_threads_share_gives_each_entry_once(db):
    keys = [b"%05d" % n for n in range(5000)]
    db.update({key: b"" for key in keys})
    shared, got = db.keys(), [[] for _ in range(4)]
    threads = [threading.Thread(target=lambda out=out: out.extend(shared)) for out in got]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(sum(got, [])) == keys


def test_what_was_acknowledged_survives_a_kill(path):
    child = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import keyrack, sys\n"
            "db = keyrack.open(sys.argv[1])\n"
            "for n in range(1 << 30):\n"
            "    with db.transaction() as tx:\n"
            "        tx[b'%d' % n] = bytes(500)\n"
            "        tx[b'last'] = b'%d' % n\n"
            "    print(n, flush=True)\n",
            path,
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    for line in child.stdout:
        if int(line) == 300:
            child.send_signal(signal.SIGKILL)
            break
    acknowledged = [300, *map(int, child.stdout.read().split())][-1]
    assert child.wait() == -signal.SIGKILL
    with keyrack.open(path) as db:
        last = int(db[b"last"])
        assert last >= acknowledged
        assert all(db[b"%d" % n] == bytes(500) for n in range(last + 1))
        assert b"%d" % (last + 1) not in db


def test_a_child_of_a_fork_is_refused_and_ends_well(path):
    done = script(
        """
        import keyrack, os, sys
        db = keyrack.open(sys.argv[1])
        db[b"key"] = b"value"
        items, tx = db.items(), db.transaction()
        tx[b"other"] = b""
        child = os.fork()
        if child == 0:
            for call in (lambda: db[b"key"], db.close, lambda: next(items), tx.commit,
                         lambda: db.put(b"key", b"")):
                try:
                    call()
                except keyrack.Error as error:
                    assert "forked" in str(error), error
                else:
                    raise SystemExit("not refused")
            with keyrack.open(sys.argv[1] + ".child") as own:
                own[b"key"] = b"of the child"
            del items, tx, db
            raise SystemExit(7)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert status == 7, status
        assert next(items) == (b"key", b"value")
        tx.commit()
        assert db[b"other"] == b""
        db.close()
        print("well")
        """,
        path,
    )
    assert (done.stdout, done.returncode) == ("well\n", 0), done.stderr


def test_a_program_that_ends_without_a_close_ends_well(path):
    done = script(
        """
        import keyrack, sys, threading
        db = keyrack.open(sys.argv[1], durability="none")
        db[b"key"] = b"value"
        items = db.items()
        tx = db.transaction()
        print("well")
        """,
        path,
    )
    assert (done.stdout, done.returncode, done.stderr) == ("well\n", 0, "")
    keyrack.open(path).close()


def test_a_signal_ends_a_long_count(path):
    done = script(
        """
        import keyrack, os, signal, sys, threading
        db = keyrack.open(sys.argv[1])
        db.update({b"%06d" % n: b"" for n in range(20000)})
        signal.signal(signal.SIGUSR1, lambda *_: 1 / 0)
        kill = threading.Thread(target=os.kill, args=(os.getpid(), signal.SIGUSR1))
        try:
            kill.start()
            while True:
                db.count()
        except ZeroDivisionError:
            print("well")
        """,
        path,
    )
    assert (done.stdout, done.returncode) == ("well\n", 0), done.stderr


def test_open_things_are_not_pickled_nor_copied(db, spaces):
    things = [db, spaces, db.transaction(), db.snapshot(), db.batch(), db.items()]
    things.append(spaces.space("a"))
    for thing in things:
        for call in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError, match="cannot be pickled"):
                call(thing)


def test_classes_are_made_by_open_alone():
    for kind in (keyrack.Store, keyrack.Spaces, keyrack.Batch, keyrack.Transaction, keyrack.Range):
        with pytest.raises(TypeError):
            kind()


def test_exceptions_are_one_hierarchy():
    kinds = [getattr(keyrack, name) for name in keyrack.__all__]
    kinds = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Exception)]
    assert len(kinds) == 14 and all(issubclass(kind, keyrack.Error) for kind in kinds)
    assert issubclass(keyrack.FileError, OSError) and issubclass(keyrack.Usage, ValueError)
    assert all(kind.__doc__ for kind in kinds)


def use_everything(at, number):
    """A store from its opening to its close, with everything of it once."""
    with keyrack.open(at, memory_budget=8 << 20) as db:
        db.update({b"%03d" % n: bytes(200) for n in range(200)})
        items = db.items()
        next(items), next(reversed(items))
        with db.transaction() as tx:
            tx[b"x"] = tx.get(b"001") + b"%d" % number
            next(iter(tx))
        with db.snapshot() as before, db.batch() as batch:
            batch[b"y"] = before[b"x"]
        for key in (b"missing", bytearray(b"missing")):
            with pytest.raises(KeyError):
                db[key]
        with pytest.raises(TypeError):
            db["text"]
        left = [db.transaction(), db.snapshot(), db.batch(), db.keys(), items]
    return left


def handles():
    return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))


def test_stores_leave_no_file_thread_or_object_behind(tmp_path):
    at = tmp_path / "db"
    use_everything(at, 0)
    gc.collect()
    before = handles()
    tracemalloc.start()
    use_everything(at, 1)
    traced = tracemalloc.get_traced_memory()[0]
    for number in range(20):
        use_everything(at, number)
    gc.collect()
    after = handles()
    grown = tracemalloc.get_traced_memory()[0] - traced
    tracemalloc.stop()
    assert after == before
    assert grown < 20_000, f"{grown} bytes of objects after 20 stores"


class Mallinfo(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in "a b c d mapped f g used free j".split()]


def used_bytes():
    mallinfo = ctypes.CDLL(None).mallinfo2
    mallinfo.restype = Mallinfo
    info = mallinfo()
    return info.used + info.mapped


def test_calls_leave_no_memory_behind(db):
    """Of each call thousands of times, with 1,000 bytes that a leak of each would leave."""
    value = bytes(1000)
    db.update({b"%03d" % n: value for n in range(200)})

    def calls():
        assert db[b"001"] == value and db.get(bytearray(b"002")) == value
        assert len(db.get_many([b"001", b"002", b"none"])) == 3
        next(db.items()), next(reversed(db.values()))
        with db.transaction() as tx:
            assert tx[b"003"] == value
            tx.roll_back()
        with pytest.raises(TypeError):
            db.get("text")
        with pytest.raises(KeyError):
            db[value]
        assert not db.compare_and_swap(b"001", value[1:], value)

    for _ in range(300):
        calls()
    gc.collect()
    before = used_bytes()
    for _ in range(3000):
        calls()
    gc.collect()
    grown = used_bytes() - before
    assert grown < 2_000_000, f"{grown} bytes of memory after 3,000 rounds"


def test_nothing_of_a_store_is_in_a_cycle(path):
    """What has no name any more is gone without the collector."""
    gc.collect()
    gc.disable()
    try:
        db = keyrack.open(path)
        db.update({b"a": b"1"})
        tx, items = db.transaction(), db.items()
        next(items)
        db.retry(lambda tx: tx.get(b"a"))
        del db, tx, items
        keyrack.open(path).close()
    finally:
        gc.enable()


def test_the_value_of_a_get_is_nobody_elses(db):
    value = bytes(range(256))
    db[b"key"] = value
    assert sys.getrefcount(value) <= 3
    assert db[b"key"] == db[b"key"] and db[b"key"] is not db[b"key"]


def test_a_child_of_a_fork_leaves_a_snapshot_whose_lock_is_held(path):
    done = script(
        """
        import keyrack, os, sys, threading
        db = keyrack.open(sys.argv[1])
        db[b"key"] = bytes(8 << 20)
        stop = threading.Event()
        # The process forks while threads are in the middle of reads.
        sys.setswitchinterval(1e-6)
        with db.snapshot() as then:
            def read():
                while not stop.is_set():
                    then[b"key"]
            threads = [threading.Thread(target=read) for _ in range(3)]
            for thread in threads:
                thread.start()
            for _ in range(20):
                child = os.fork()
                if child == 0:
                    try:
                        then[b"key"]
                    except keyrack.Error as error:
                        assert "forked" in str(error), error
                    then.release()
                    with then:
                        pass
                    os._exit(7)
                status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
                assert status == 7, status
            stop.set()
            for thread in threads:
                thread.join()
            assert len(then[b"key"]) == 8 << 20
        db.close()
        print("well")
        """,
        path,
    )
    assert (done.stdout, done.returncode) == ("well\n", 0), done.stderr


def test_a_store_is_closed_while_threads_read_in_one_transaction(path):
    done = script(
        """
        import keyrack, sys, threading
        sys.setswitchinterval(1e-6)
        for _ in range(40):
            db = keyrack.open(sys.argv[1], memory_budget=16 << 20)
            db[b"key"] = bytes(1 << 20)
            tx = db.transaction()
            begun = threading.Barrier(5)
            def read():
                begun.wait()
                try:
                    while True:
                        tx[b"key"]
                except keyrack.Closed:
                    pass
            threads = [threading.Thread(target=read) for _ in range(4)]
            for thread in threads:
                thread.start()
            begun.wait()
            tx[b"key"]
            db.close()
            for thread in threads:
                thread.join()
        print("well")
        """,
        path,
    )
    assert (done.stdout, done.returncode) == ("well\n", 0), done.stderr
