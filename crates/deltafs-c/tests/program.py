"""Uses keyrack_fs.py on the log in argv[1], and on the servers at argv[2] with the token argv[3]."""

import errno
import sys

import keyrack_fs

path = sys.argv[1]
try:
    keyrack_fs.open(path)
    raise SystemExit("a log that is not there was opened")
except keyrack_fs.Error as error:
    assert error.errno and str(error), error


def use(fs):
    fs.mkdir("/a")
    fs.create("/a/f", exclusive=True)
    assert fs.write("/a/f", b"hello") == 5
    assert fs.read("/a/f") == b"hello" and fs.read("/a/f", 1, 3) == b"ell"
    fs.truncate("/a/f", 7)
    assert fs.read("/a/f") == b"hello\0\0"
    fs.truncate("/a/f", 5)
    try:
        fs.mkdir("/a")
        raise SystemExit("a directory was made twice")
    except FileExistsError as error:
        assert error.errno == errno.EEXIST and "/a" in str(error), error
    fs.symlink("a/f", "/l")
    assert fs.readlink("/l") == b"a/f"
    assert fs.stat("/l").is_file and fs.lstat("/l").is_symlink
    fs.chmod("/a/f", 0o600)
    fs.utime("/a/f", 1_700_000_000_000_000_005)
    stat = fs.stat("/a/f")
    assert (stat.permissions, stat.size, stat.mtime_ns) == (0o600, 5, 1_700_000_000_000_000_005)
    fs.rename("/a/f", b"/a/\xff\xfe")
    assert [entry.name for entry in fs.list("/a")] == [b"\xff\xfe"]
    for i in range(1500):
        fs.create(f"/a/{i:04}")
    names = [entry.name for entry in fs.list("/a")]
    assert names[:2] == [b"0000", b"0001"] and len(names) == 1501
    assert next(fs.list("/a", after="0700")).name == b"0701"
    fs.unlink("/l")
    try:
        fs.rmdir("/a")
        raise SystemExit("a directory with entries was removed")
    except OSError as error:
        assert error.errno == errno.ENOTEMPTY, error
    fs.sync()


with keyrack_fs.open(path, create=True) as fs:
    use(fs)
try:
    fs.mkdir("/b")
    raise SystemExit("a closed log was used")
except ValueError:
    pass

with keyrack_fs.open(path, read_only=True) as fs:
    assert fs.stat("/a").is_dir
    try:
        fs.mkdir("/b")
        raise SystemExit("a read-only log was changed")
    except OSError as error:
        assert error.errno == errno.EROFS, error

server, token = sys.argv[2:]
try:
    keyrack_fs.connect(server)
    raise SystemExit("servers took a client without their token")
except PermissionError as error:
    assert str(error), error
with keyrack_fs.connect(server, token) as fs:
    use(fs)
print("done")
