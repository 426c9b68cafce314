"""Asks the servers at argv[1] with the token argv[2], says so, and asks again after a line of input:
then they are gone."""

import errno
import sys

import keyrack_fs

with keyrack_fs.connect(sys.argv[1], sys.argv[2]) as fs:
    fs.create("/a")
    assert fs.stat("/a").is_file
    print("asked", flush=True)
    sys.stdin.readline()
    for call in (lambda: fs.stat("/a"), lambda: fs.write("/a", b"x"), fs.sync):
        try:
            call()
            raise SystemExit("servers that are gone answered")
        except keyrack_fs.Error as error:
            assert error.errno == errno.EIO and "127.0.0.1:" in str(error), error
print("done")
