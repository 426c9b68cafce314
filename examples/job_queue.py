"""A queue of jobs in a store: times to live, transactions, and the change feed.

    printf 'one\\ncrash two\\nthree\\n' | python job_queue.py DIR --lease 1

Each line of standard input is a job; doing it is to write it in capitals. The store has

    next        the number of the next job, which fetch_and_add gives out
    job/ID      the text; a job that nobody does in an hour is dropped
    lease/ID    who does the job; it expires when a worker is late, and others take the job then
    done/ID     the result, for a day

A worker takes a job in one transaction, does it outside of any, and finishes in a second one that
checks that the lease is still its own. So a job is finished once, however many workers try. The
first worker of a text that begins with "crash" dies before it has finished.

A write survives the end of the process, however it comes: started again on the same directory, the
program goes on with the jobs that are there.
"""

import argparse
import itertools
import sys
import threading

import keyrack

JOB_SECONDS = 3600
DONE_SECONDS = 24 * 3600

# Workers that take jobs at the same time conflict, and one of them gets its job each time.
ATTEMPTS = 1000


class Crash(Exception):
    """A worker dies."""


def add(db, text):
    """Adds a job. The numbers have the same length, so that their order is that of the keys."""
    number = db.fetch_and_add(b"next")
    db.put(b"job/%010d" % number, text, ttl=JOB_SECONDS)


def take(db, worker, lease_seconds):
    """The ID and text of the first job without a lease, which is leased to `worker` now; `None` if
    there is none."""

    def first_free(tx):
        for key, text in tx.prefix(b"job/"):
            lease = b"lease/" + key.removeprefix(b"job/")
            # What a transaction reads, also that there is nothing, must stay so until it commits.
            # Of two that lease the same job one begins again, and sees the lease of the other.
            if lease not in tx:
                tx.put(lease, worker, ttl=lease_seconds)
                return key.removeprefix(b"job/"), text
        return None

    return db.retry(first_free, ATTEMPTS)


def finish(db, worker, job, result):
    """Stores the result, unless the lease has expired, whether or not others have the job now."""

    def replace(tx):
        if tx.get(b"lease/" + job) != worker:
            return
        tx.delete(b"job/" + job)
        tx.delete(b"lease/" + job)
        tx.put(b"done/" + job, result, ttl=DONE_SECONDS)

    db.retry(replace, ATTEMPTS)


class Workers:
    """Threads that do jobs until the store closes."""

    def __init__(self, db, count, lease_seconds):
        self.db = db
        self.lease_seconds = lease_seconds
        # Jobs that have made a worker die. Only who has the lease of a job looks for it.
        self.crashed = set()
        numbers = range(1, count + 1)
        self.threads = [threading.Thread(target=self.run, args=(number,)) for number in numbers]
        for thread in self.threads:
            thread.start()

    def run(self, number):
        """A worker, and after a crash another in its place."""
        for life in itertools.count(1):
            try:
                self.work(b"worker %d, life %d" % (number, life))
            except Crash:
                continue
            except keyrack.Closed:
                return

    def work(self, worker):
        changes = self.db.changes(self.db.position())
        while True:
            # Before it looks for a job: what comes afterwards ends the wait.
            for _ in changes:
                pass
            found = take(self.db, worker, self.lease_seconds)
            if found is None:
                # A lease that expires writes nothing, so look for that from time to time.
                changes.wait(self.lease_seconds)
                continue
            job, text = found
            if text.startswith(b"crash") and job not in self.crashed:
                self.crashed.add(job)
                raise Crash
            finish(self.db, worker, job, text.upper())


def count(changes, counts):
    """Counts what has happened since the last call."""
    names = {b"job": "added", b"lease": "taken", b"done": "done"}
    for change in changes:
        for write in change.writes:
            name = names.get(write.key.partition(b"/")[0])
            if write.kind == "put" and name:
                counts[name] += 1


def main():
    parser = argparse.ArgumentParser(description="Does the jobs of standard input, one a line.")
    parser.add_argument("dir", help="the store, made if it is not there")
    parser.add_argument("--workers", type=int, default=4, help="threads (default: 4)")
    parser.add_argument(
        "--lease", type=float, default=30, help="seconds that a worker has for a job (default: 30)"
    )
    options = parser.parse_args()
    if options.workers < 1 or not options.lease > 0:
        parser.error("--workers and --lease must be more than 0")

    counts = {"added": 0, "taken": 0, "done": 0}
    with keyrack.open(options.dir) as db:
        changes = db.changes(db.position())
        workers = Workers(db, options.workers, options.lease)
        for line in sys.stdin.buffer:
            add(db, line.rstrip(b"\n"))
            count(changes, counts)
        # Jobs go when they are done, and when they expire.
        while next(db.keys(prefix=b"job/"), None) is not None:
            changes.wait(options.lease)
            count(changes, counts)
            if not any(thread.is_alive() for thread in workers.threads):
                sys.exit("all workers have failed; start the program again for the jobs that are left")
        count(changes, counts)
        results = list(db.prefix(b"done/"))
    # The store is closed, which ends the workers.
    for thread in workers.threads:
        thread.join()

    print(", ".join(f"{number} {name}" for name, number in counts.items()))
    for key, result in results:
        number = int(key.removeprefix(b"done/"))
        print(number, result.decode(errors="replace"))


if __name__ == "__main__":
    main()
