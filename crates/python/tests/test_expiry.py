"""Values that expire: when they go, where they stay, and what is refused."""

import datetime
import math
import time

import keyrack
import pytest

# Long after every test.
LATER = 4_102_444_800.25


@pytest.fixture(params=["db", "spaces"])
def keys(request):
    """A store, or a key space."""
    opened = request.getfixturevalue(request.param)
    return opened if request.param == "db" else opened.space("users")


def test_a_value_goes_when_its_time_is_over_and_not_before(keys):
    before = time.time()
    keys.put(b"key", b"value", ttl=0.05)
    while b"key" in keys:
        pass
    # The clock has milliseconds.
    assert time.time() >= before + 0.049
    assert keys.get(b"key") is None and list(keys) == []
    with pytest.raises(KeyError):
        keys.expiry(b"key")


@pytest.mark.parametrize("ttl", [60, 60.0, datetime.timedelta(minutes=1)])
def test_a_time_to_live_is_seconds_or_a_timedelta(keys, ttl):
    before = time.time()
    keys.put(b"key", b"value", ttl=ttl, sync=True)
    assert before + 59.999 <= keys.expiry(b"key") <= time.time() + 60.001
    assert keys[b"key"] == b"value"


def test_moments_are_exact_to_the_millisecond(keys):
    for until in (LATER, 4_102_444_800.001, 1e12):
        keys.put(b"key", b"value", until=until)
        assert keys.expiry(b"key") == until
    keys.put(b"key", b"value", until=time.time() - 1)
    assert b"key" not in keys


def test_a_later_write_replaces_the_expiry(keys):
    keys.put(b"key", b"1", until=LATER)
    keys[b"key"] = b"2"
    assert keys.expiry(b"key") is None
    assert keys.expire(b"key", 60) and keys[b"key"] == b"2"
    assert keys.expiry(b"key") < LATER
    assert keys.persist(b"key") and not keys.persist(b"key")
    assert keys.expiry(b"key") is None and keys[b"key"] == b"2"
    assert keys.expire(b"key", 0) and b"key" not in keys
    assert not keys.expire(b"key", 60) and not keys.persist(b"key")


def test_expiries_survive_a_restart(path):
    with keyrack.open(path) as db:
        db.put(b"key", b"value", until=LATER)
        db.put(b"old", b"value", ttl=0)
    with keyrack.open(path) as db:
        assert db.expiry(b"key") == LATER and list(db) == [b"key"]
        db.flush()
        db.compact()
        assert db.expiry(b"key") == LATER


def test_batches_and_transactions_write_values_that_expire(db, spaces):
    users = spaces.space("users")
    for opened, keys, within in (
        (db, db, lambda it: it),
        (spaces, users, lambda it: it.space("users")),
    ):
        with opened.batch() as batch:
            within(batch).put(b"a", b"1", until=LATER)
            within(batch).put(b"b", b"2", ttl=0)
            within(batch).put(b"c", b"3")
        with opened.transaction() as tx:
            within(tx).put(b"d", b"4", ttl=datetime.timedelta(days=1))
            within(tx).put(b"e", b"5", until=LATER)
            assert within(tx)[b"e"] == b"5"
        assert list(keys) == [b"a", b"c", b"d", b"e"]
        expiries = [keys.expiry(key) for key in keys]
        assert expiries[:2] == [LATER, None] and expiries[3] == LATER
        assert time.time() < expiries[2] <= time.time() + 86_401


def test_a_snapshot_keeps_what_had_not_expired(db):
    ttl, before = 0.05, db.snapshot()
    # A slow machine may need longer for a snapshot.
    while b"key" not in before:
        db.put(b"key", b"value", ttl=ttl)
        ttl, before = 2 * ttl, db.snapshot()
    while b"key" in db:
        pass
    assert before[b"key"] == b"value" and list(before) == [b"key"]


@pytest.mark.parametrize("ttl", [-1, -0.001, math.nan, math.inf, datetime.timedelta(seconds=-1)])
def test_times_to_live_that_cannot_be_are_refused(db, ttl):
    for call in (
        lambda: db.put(b"key", b"value", ttl=ttl),
        lambda: db.expire(b"key", ttl),
        lambda: db.batch().put(b"key", b"value", ttl=ttl),
        lambda: db.transaction().put(b"key", b"value", ttl=ttl),
    ):
        with pytest.raises(keyrack.Usage, match="seconds from 0 on"):
            call()
    assert list(db) == []


def test_moments_that_cannot_be_are_refused(db):
    for until in (-1, math.nan, math.inf, 1e300):
        with pytest.raises(keyrack.Usage, match="seconds since 1970"):
            db.put(b"key", b"value", until=until)
    with pytest.raises(keyrack.Usage, match="either ttl or until"):
        db.put(b"key", b"value", ttl=1, until=LATER)
    with pytest.raises(TypeError, match="seconds or a timedelta, not str"):
        db.put(b"key", b"value", ttl="60")
    assert list(db) == []
    # More than a moment can say is the last moment.
    db.put(b"key", b"value", ttl=1e18)
    assert db.expiry(b"key") > 1e16 and b"key" in db
