"""Listeners: what they hear, and what they may do."""

import subprocess
import sys
import threading

import keyrack
import pytest


def test_a_listener_hears_of_flushes_and_compactions(path):
    heard = []
    with keyrack.open(path, listener=heard.append) as db:
        db[b"key"] = b"value"
        db.flush()
        db.compact()
    begun, ended = heard[:2]
    assert begun["event"] == "flush_begun" and begun["memtable_bytes"] > 0
    assert ended["event"] == "flush_ended" and ended["job"] == begun["job"]
    assert len(ended["tables"]) == 1 and ended["table_bytes"] > 0 and ended["blobs"] == []
    compaction = next(event for event in heard if event["event"] == "compaction_begun")
    assert compaction["reason"] == "caller" and compaction["tables"] == ended["tables"]
    count = len(heard)
    with keyrack.open(path, read_only=True, listener=heard.append) as db:
        assert db[b"key"] == b"value"
    assert len(heard) == count


def test_a_listener_uses_the_store_and_closes_it(path):
    closed = threading.Event()

    def listener(event):
        if event["event"] == "flush_ended":
            db[b"flushes"] = b"%d" % event["job"]
            assert db[b"key"] == b"value"
            db.close()
            closed.set()

    db = keyrack.open(path, listener=listener)
    db[b"key"] = b"value"
    db.flush()
    assert closed.wait(60)
    with pytest.raises(keyrack.Closed):
        db[b"key"]
    with keyrack.open(path) as db:
        assert db[b"flushes"] == b"1"


def test_an_exception_in_a_listener_is_reported_and_ends_nothing(path, monkeypatch):
    reported = []
    monkeypatch.setattr(sys, "unraisablehook", lambda args: reported.append(str(args.exc_value)))

    def listener(event):
        raise ValueError(event["event"])

    with keyrack.open(path, listener=listener) as db:
        db[b"key"] = b"value"
        db.flush()
        assert db[b"key"] == b"value"
    assert reported == ["flush_begun", "flush_ended"]


def test_key_spaces_have_one_listener(path):
    heard = []
    with keyrack.open_spaces(path, listener=heard.append) as spaces:
        spaces.space("a")[b"key"] = b"value"
        spaces.space("b")[b"key"] = b"value"
        spaces.flush()
    assert [event["event"] for event in heard] == ["flush_begun", "flush_ended"]


def test_what_cannot_be_called_is_refused(path):
    with pytest.raises(TypeError, match="listener"):
        keyrack.open(path, listener=7)


def test_a_program_ends_while_its_listener_is_busy(path):
    program = """
import keyrack, sys
db = keyrack.open(sys.argv[1], listener=lambda event: sum(range(100_000)))
for n in range(50):
    db[b"key"] = b"%d" % n
    db.flush()
print("done")
"""
    run = [sys.executable, "-c", program, path]
    ended = subprocess.run(run, capture_output=True, text=True, timeout=120)
    assert (ended.returncode, ended.stdout) == (0, "done\n"), ended.stderr
    with keyrack.open(path) as db:
        assert db[b"key"] == b"49"
