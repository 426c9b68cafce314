"""Any argument to any call: an answer or an exception, never a panic, a crash or a hang."""

import random

import keyrack
import keyrack.fs
import pytest

CALLS = 4000

# What waits for somebody else has its own tests, and would wait for itself here.
LEFT_OUT = {"get_for_update", "wait", "__class__", "__init_subclass__", "__subclasshook__"}
LEFT_OUT |= {"__reduce_ex__"}
LEFT_OUT |= {"__getstate__", "__dir__", "__sizeof__", "__init__", "__new__", "__class_getitem__"}
LEFT_OUT |= {"__setattr__", "__delattr__", "__getattribute__"}


class Strange:
    """An object whose every special method raises."""

    def __bytes__(self):
        raise ZeroDivisionError

    def __iter__(self):
        raise ZeroDivisionError

    def __index__(self):
        raise ZeroDivisionError

    def __fspath__(self):
        raise ZeroDivisionError

    def __bool__(self):
        raise ZeroDivisionError

    def __eq__(self, other):
        raise ZeroDivisionError

    __hash__ = None


def values(draw, at):
    """Something that a call may or may not take."""
    return draw.choice(
        [
            lambda: b"",
            lambda: b"key",
            lambda: draw.randbytes(draw.choice([1, 8, 300, 70_000])),
            lambda: bytearray(b"key"),
            lambda: memoryview(b"a.b.c")[::-2],
            lambda: "text",
            lambda: "\udcff",
            lambda: "/a/../b\0",
            lambda: None,
            lambda: True,
            lambda: draw.choice([0, 1, -1, 1 << 31, 1 << 63, 1 << 64, -(1 << 63), 1 << 200]),
            lambda: float("nan"),
            lambda: slice(draw.choice([None, b"a", 3]), draw.choice([None, b"b", "b"]), None),
            lambda: slice(None, None, -1),
            lambda: {b"a": b"b"},
            lambda: {b"a": "b"},
            lambda: [(b"a", b"b"), (b"c",)],
            lambda: [b"a", b"b"],
            lambda: iter([b"a", "b"]),
            lambda: Strange(),
            lambda: str(at / "place"),
            lambda: lambda *_: b"x",
            lambda: keyrack.Store,
        ]
    )()


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_no_call_does_worse_than_raise(seed, tmp_path, monkeypatch):
    # Relative paths are among the arguments.
    monkeypatch.chdir(tmp_path)
    draw = random.Random(seed)
    db = keyrack.open(tmp_path / "db", memory_budget=16 << 20)
    spaces = keyrack.open_spaces(tmp_path / "spaces", memory_budget=16 << 20)
    fs = keyrack.fs.FileSystem(tmp_path / "log")
    backups = keyrack.Repository(tmp_path / "backups")
    things = [db, spaces, fs, backups]
    outcomes = {True: 0, False: 0}
    for _ in range(CALLS):
        makers = [db.transaction, db.snapshot, db.batch, db.items, db.changes]
        makers += [spaces.transaction, lambda: spaces.space("a"), lambda: spaces.batch().space("a")]
        try:
            thing = draw.choice(things * 2 + [draw.choice(makers)()])
        except keyrack.Error:
            continue
        names = [name for name in dir(thing) if name not in LEFT_OUT]
        # A store that is closed has little to say: that is for the end.
        names = [name for name in names if name not in ("close", "__exit__", "walk", "scandir")]
        call = getattr(thing, draw.choice(names))
        if not callable(call):
            continue
        arguments = [values(draw, tmp_path) for _ in range(draw.randrange(4))]
        try:
            answer = call(*arguments)
            if isinstance(answer, keyrack.Range):
                next(answer, None), next(reversed(answer), None)
            outcomes[True] += 1
        except Exception:
            # A panic is no `Exception`.
            outcomes[False] += 1
    assert min(outcomes.values()) > CALLS // 10, outcomes
    db[b"still"] = b"here"
    assert db[b"still"] == b"here"
    spaces.space("still")[b"a"] = b"b"
    fs.write_bytes("/still", b"here")
    for thing in (db, spaces, fs):
        thing.close()
