"""The example `examples/job_queue.py`: a program of its own, with jobs, crashes and restarts."""

import contextlib
import pathlib
import re
import subprocess
import sys

import keyrack

PROGRAM = pathlib.Path(__file__).parents[3] / "examples/job_queue.py"


def run(path, jobs, *arguments):
    command = [sys.executable, PROGRAM, path, *arguments]
    done = subprocess.run(command, input=jobs, capture_output=True, text=True, timeout=110)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def test_each_job_is_done_once_also_that_of_a_worker_that_crashes(path):
    counts, *results = run(path, "one\ncrash two\n\nthree\ncrash four\n", "--lease", "0.5")
    taken = int(re.fullmatch(r"5 added, (\d+) taken, 5 done", counts)[1])
    # On a slow machine more leases expire.
    assert taken >= 7
    assert results == ["0 ONE", "1 CRASH TWO", "2 ", "3 THREE", "4 CRASH FOUR"]
    with keyrack.open(path) as db:
        assert db.count(prefix=b"job/") == db.count(prefix=b"lease/") == 0
        assert all(db.expiry(key) is not None for key in db.keys(prefix=b"done/"))


def test_one_worker_does_many_jobs(path):
    counts, *results = run(path, "\n".join(map(str, range(50))), "--workers", "1")
    assert counts == "50 added, 50 taken, 50 done"
    assert results == [f"{number} {number}" for number in range(50)]


def test_a_restart_goes_on_with_what_is_there(path):
    """A process has added two jobs, and died with one of them."""
    with keyrack.open(path) as db:
        assert (db.fetch_and_add(b"next"), db.fetch_and_add(b"next")) == (0, 1)
        db.put(b"job/0000000000", b"held", ttl=3600)
        db.put(b"job/0000000001", b"free", ttl=3600)
        db.put(b"lease/0000000000", b"a worker of before", ttl=0.5)
    counts, *results = run(path, "new\n", "--lease", "1")
    assert counts.startswith("1 added") and counts.endswith("3 done")
    assert results == ["0 HELD", "1 FREE", "2 NEW"]
    assert run(path, "") == ["0 added, 0 taken, 0 done", *results]


def count_of_done(path):
    with contextlib.suppress(keyrack.Error):
        with keyrack.open(path, read_only=True) as db:
            return db.count(prefix=b"done/")
    return 0


def test_no_job_is_lost_or_done_twice_when_the_process_is_killed(path):
    child = subprocess.Popen(
        [sys.executable, PROGRAM, path, "--lease", "0.5"], stdin=subprocess.PIPE, text=True
    )
    child.stdin.write("".join(f"job {number}\n" for number in range(300)))
    child.stdin.flush()
    while count_of_done(path) == 0:
        assert child.poll() is None
    child.kill()
    child.communicate()
    with keyrack.open(path) as db:
        left = list(db.keys(prefix=b"job/"))
        done = list(db.keys(prefix=b"done/"))
    counts, *results = run(path, "", "--lease", "0.5")
    assert counts.startswith("0 added") and counts.endswith(f" {len(left)} done")
    assert len(results) == len(left) + len(done)
    assert results == [f"{number} JOB {number}" for number in range(len(results))]
