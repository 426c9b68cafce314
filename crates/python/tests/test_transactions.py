"""Transactions: whole or not at all, conflicts with their key, retries, rows, key spaces."""

import contextlib
import threading

import keyrack
import pytest


def test_a_block_commits_at_its_end_and_rolls_back_on_an_exception(db):
    db[b"ada"] = b"10"
    with db.transaction(sync=True) as tx:
        tx[b"ada"] = b"9"
        tx.put(b"bob", b"1")
        assert tx[b"ada"] == b"9" and b"bob" in tx
        assert b"bob" not in db
    assert dict(db.items()) == {b"ada": b"9", b"bob": b"1"}
    with pytest.raises(ZeroDivisionError):
        with db.transaction() as tx:
            del tx[:]
            assert tx.first() is None
            1 / 0
    assert dict(db.items()) == {b"ada": b"9", b"bob": b"1"}
    with pytest.raises(keyrack.Closed, match="begin another"):
        tx[b"ada"]


def test_a_conflict_has_the_key_and_writes_nothing(db):
    db[b"seats"] = b"7"
    with pytest.raises(keyrack.Conflict) as raised:
        with db.transaction() as tx:
            tx[b"guest"] = tx[b"seats"]
            db[b"seats"] = b"5"
    assert raised.value.key == b"seats" and raised.value.space is None
    assert isinstance(raised.value, keyrack.Error)
    assert b"guest" not in db


@pytest.mark.parametrize("isolation, conflicts", [("serializable", True), ("snapshot", False)])
def test_ranges_are_read_sets_too(db, isolation, conflicts):
    db.update({b"a": b"1", b"c": b"3"})
    tx = db.transaction(isolation=isolation)
    assert list(tx[b"a":b"d"]) == [(b"a", b"1"), (b"c", b"3")]
    db[b"b"] = b"2"
    tx[b"sum"] = b"4"
    if conflicts:
        with pytest.raises(keyrack.Conflict):
            tx.commit()
    else:
        tx.commit()
    assert (b"sum" in db) != conflicts


@pytest.mark.parametrize("changed, conflicts", [(19, True), (21, False)])
def test_an_iterator_over_large_values_reads_little_ahead(db, changed, conflicts):
    keys = [b"%03d" % n for n in range(60)]
    for key in keys:
        db[key] = bytes(100_000)
    tx = db.transaction()
    items = tx.items()
    assert [next(items)[0] for _ in range(20)] == keys[:20]
    db[keys[changed]] = b""
    tx[b"sum"] = b""
    if conflicts:
        with pytest.raises(keyrack.Conflict):
            tx.commit()
    else:
        tx.commit()


def test_isolation_has_two_names(db):
    with pytest.raises(keyrack.Usage, match="'serializable' or 'snapshot'"):
        db.transaction(isolation="dirty")


def test_a_transaction_reads_its_writes_in_order_from_both_ends(db):
    db.update({b"%03d" % n: b"old" for n in range(300)})
    with db.transaction() as tx:
        del tx[b"100":b"200"]
        tx[b"150x"] = b"new"
        tx.update({b"000": b"new"})
        assert tx.setdefault(b"001", b"no") == b"old" and tx.setdefault(b"zz", b"yes") == b"yes"
        assert tx.pop(b"002") == b"old" and tx.pop(b"002", None) is None
        del tx[b"003"]
        with pytest.raises(KeyError):
            del tx[b"003"]
        tx.delete(b"003")
        keys = [b"%03d" % n for n in [0, 1, *range(4, 100)]] + [b"150x"]
        keys += [b"%03d" % n for n in range(200, 300)] + [b"zz"]
        assert list(tx) == keys and list(reversed(tx)) == keys[::-1]
        assert tx.first() == (b"000", b"new") and tx.last() == (b"zz", b"yes")
        assert list(tx.keys(b"150", b"201")) == [b"150x", b"200"]
        assert list(tx.keys(prefix=b"15")) == [b"150x"]
        assert tx.get_many([b"150x", b"150"]) == [b"new", None]
        del tx[b"200":]
        assert tx.last() == (b"150x", b"new") and tx.count() == 99
        front, back = tx.items(), reversed(tx.items())
        assert next(front)[0] == b"000" and next(back)[0] == b"150x"
    assert list(db) == keys[:99]


def test_save_points_are_returned_to(db):
    with db.transaction() as tx:
        tx[b"a"] = b"1"
        tx.save_point()
        tx[b"b"] = b"2"
        tx.save_point()
        tx[b"c"] = b"3"
        tx.release_save_point()
        tx.roll_back_to_save_point()
        with pytest.raises(keyrack.Usage):
            tx.roll_back_to_save_point()
    assert list(db) == [b"a"]


def test_a_block_may_end_its_transaction_itself(db):
    with db.transaction() as tx:
        tx[b"a"] = b"1"
        tx.commit()
    with db.transaction() as tx:
        tx[b"b"] = b"2"
        tx.roll_back()
        tx.roll_back()
    assert list(db) == [b"a"]
    with pytest.raises(keyrack.Closed):
        tx.commit()


def test_retry_runs_again_after_conflicts_alone(db):
    db[b"n"] = b"0"
    runs = []

    def count(tx):
        runs.append(tx)
        number = int(tx[b"n"])
        if len(runs) < 4:
            db[b"n"] = b"%d" % (number + 10)
        tx[b"n"] = b"%d" % (number + 1)
        return number

    assert db.retry(count) == 30
    assert db[b"n"] == b"31" and len(runs) == 4
    runs.clear()
    with pytest.raises(keyrack.Conflict):
        db.retry(count, 3)
    assert len(runs) == 3

    def fail(tx):
        runs.append(tx)
        tx[b"n"] = b"lost"
        raise ZeroDivisionError

    runs.clear()
    before = db[b"n"]
    with pytest.raises(ZeroDivisionError):
        db.retry(fail)
    assert len(runs) == 1 and db[b"n"] == before
    with pytest.raises(keyrack.Closed):
        runs[0][b"n"]


def test_threads_that_retry_lose_no_update(db):
    db[b"n"] = b"0"

    def add():
        for _ in range(100):
            db.retry(lambda tx: tx.put(b"n", b"%d" % (int(tx[b"n"]) + 1)), 10_000)

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert db[b"n"] == b"400"


def test_of_two_that_wait_for_each_other_one_gets_a_deadlock(db):
    """While one waits for a row the other must run: a wait with the lock of the interpreter would
    never end."""
    both, outcomes = threading.Barrier(2), []

    def lock(first, second):
        with db.transaction() as tx:
            tx.get_for_update(first)
            both.wait()
            try:
                tx.get_for_update(second)
                outcomes.append("got it")
            except keyrack.Deadlock as error:
                outcomes.append(error.key)
                raise

    def other():
        with contextlib.suppress(keyrack.Deadlock):
            lock(b"b", b"a")

    thread = threading.Thread(target=other)
    thread.start()
    with contextlib.suppress(keyrack.Deadlock):
        lock(b"a", b"b")
    thread.join()
    assert sorted(map(str, outcomes)) in (["b'a'", "got it"], ["b'b'", "got it"])


def test_a_close_ends_the_waits_for_rows(tmp_path):
    db = keyrack.open(tmp_path / "db")
    holder = db.transaction()
    holder.get_for_update(b"row")
    began, outcome = threading.Event(), []

    def wait():
        try:
            tx = db.transaction()
            began.set()
            tx.get_for_update(b"row")
            outcome.append("got it")
        except keyrack.Closed:
            outcome.append("closed")

    threads = [threading.Thread(target=wait) for _ in range(3)]
    for thread in threads:
        thread.start()
    began.wait()
    db.close()
    for thread in threads:
        thread.join()
    assert len(outcome) == 3
    with pytest.raises(keyrack.Closed):
        holder.commit()
    # Nothing of the store is left open.
    keyrack.open(tmp_path / "db").close()


def test_key_spaces_are_apart_and_written_together(spaces):
    users, ages = spaces.space("users"), spaces.space("ages")
    with spaces.batch() as batch:
        batch.space("users")[b"ada"] = b"36"
        batch.space("ages")[b"036 ada"] = b""
        with pytest.raises(TypeError, match="space"):
            batch[b"ada"] = b"36"
    assert dict(users.items()) == {b"ada": b"36"} and list(ages) == [b"036 ada"]
    before = spaces.snapshot()
    with pytest.raises(keyrack.Conflict) as raised:
        with spaces.transaction() as tx:
            tx.space("ages")[b"x"] = tx.space("users")[b"ada"]
            users[b"ada"] = b"37"
    assert (raised.value.key, raised.value.space) == (b"ada", "users")
    assert spaces.retry(lambda tx: tx.space("users").pop(b"ada")) == b"37"
    assert users.first() is None
    assert before.space("users")[b"ada"] == b"36"
    with pytest.raises(TypeError, match="space"):
        before[b"ada"]
    ages.update({b"1": b"", b"2": b""})
    with spaces.transaction() as tx:
        view = tx.space("ages")
        assert list(view) == [b"036 ada", b"1", b"2"]
        assert view.get_for_update(b"1") == b""
        del view[b"1":]
    assert list(ages) == [b"036 ada"]
    assert users.name == "users"


def test_key_spaces_have_names(spaces):
    users = spaces.space("users")
    users[b"ada"] = b"36"
    assert list(spaces) == ["users"] and len(spaces) == 1 and "users" in spaces
    assert "ages" not in spaces
    for missing in (
        lambda: spaces["ages"],
        lambda: spaces.space("ages", create=False),
        lambda: spaces.__delitem__("ages"),
    ):
        with pytest.raises(KeyError, match="ages"):
            missing()
    with pytest.raises(keyrack.Usage, match="ages"):
        spaces.transaction().space("ages")
    with pytest.raises(keyrack.Usage):
        spaces.space("")
    del spaces["users"]
    with pytest.raises(keyrack.Usage):
        users[b"ada"]
    assert spaces.space("users").get(b"ada") is None
    with pytest.raises(keyrack.Usage):
        users[b"ada"]


def test_a_store_with_key_spaces_opens_as_one_alone(tmp_path, db):
    with keyrack.open_spaces(tmp_path / "s") as spaces:
        users = spaces.space("users")
        users[b"ada"] = b"36"
    assert spaces.closed
    with pytest.raises(keyrack.Closed):
        users[b"ada"]
    with pytest.raises(keyrack.Closed):
        list(spaces)
    with pytest.raises(keyrack.Usage):
        keyrack.open(tmp_path / "s")
    with pytest.raises(keyrack.Usage, match="no key spaces"):
        db.transaction().space("users")
    with keyrack.open_spaces(tmp_path / "s", read_only=True) as spaces:
        assert spaces["users"][b"ada"] == b"36"
