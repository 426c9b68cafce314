"""A program that a checker of types accepts, and lines that it must refuse.

`test_types.py` gives it to mypy: a line with `# refused` has to be an error, all others none.
"""

import datetime
import pathlib
from typing import assert_type

import keyrack


def program(path: pathlib.Path) -> int:
    with keyrack.open(path, memory_budget=1 << 26, durability="sync") as db:
        db[b"key"] = bytearray(b"value")
        db["key"] = b"value"  # refused
        db[b"key"] = "value"  # refused
        assert_type(db[b"key"], bytes)
        assert_type(db.get(b"key"), bytes | None)
        assert_type(db.get(b"key", 7), bytes | int)
        assert_type(db.pop(b"key", None), bytes | None)
        for key, value in reversed(db[b"a":b"z"]):
            assert_type((key, value), tuple[bytes, bytes])
        assert_type(list(db), list[bytes])
        assert_type(list(db.values(prefix=b"a")), list[bytes])
        with db.transaction(isolation="snapshot") as tx:
            tx[b"key"] = tx.get_for_update(b"key") or b""
        db.transaction(isolation="dirty")  # refused
        with db.batch() as batch, db.snapshot() as before:
            batch.update({b"a": before[b"a"]})
        assert_type(db.retry(lambda tx: len(tx[b"key"])), int)
        db.put(b"key", b"value", ttl=datetime.timedelta(hours=1), sync=True)
        db.put(b"key", b"value", ttl="1 h")  # refused
        assert_type(db.expiry(b"key"), float | None)
        for change in db.changes(db.position(), synced=True):
            assert_type([write.key for write in change.writes], list[bytes])
        del db[b"a":b"b"], db[b"c"]
        try:
            db.checkpoint(path / "copy")
        except keyrack.Conflict as error:
            assert_type(error.key, bytes)
        len(db)  # refused
    keyrack.open(path, memory_budgt=1)  # refused
    with keyrack.open_spaces(path, read_only=True) as spaces:
        users = spaces.space("users")
        assert_type(users.compare_and_swap(b"a", None, b"b"), bool)
        return users.fetch_and_add(b"n", 2)
