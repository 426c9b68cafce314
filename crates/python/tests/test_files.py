"""Name spaces: files as Python has them, and every call that `os` has a counterpart of."""

import errno
import io
import os
import pickle
import random
import subprocess
import sys
import threading

import keyrack
import keyrack.fs
import pytest


@pytest.fixture
def fs(tmp_path):
    with keyrack.fs.FileSystem(tmp_path / "log") as fs:
        yield fs


def test_files_and_directories_come_and_go(fs):
    fs.mkdir("/a")
    fs.create("/a/file")
    fs.write("/a/file", 2, b"cd")
    assert fs.read("/a/file", 0, 100) == b"\0\0cd" == fs.read_bytes("/a/file")
    fs.truncate("/a/file", 3)
    fs.symlink("/a/file", "/a/first")
    fs.symlink("first", "/a/second")
    fs.truncate("/a/second", 2)
    assert fs.read_bytes("/a/file") == b"\0\0"
    fs.truncate("/a/second", 3)
    fs.unlink("/a/second")
    fs.unlink("/a/first")
    fs.chmod("/a/file", 0o600)
    fs.chown("/a/file", 7, None)
    fs.utime("/a/file", 5_000_000_000)
    stat = fs.stat("/a/file")
    assert (stat.kind, stat.size, stat.mode, stat.uid, stat.gid) == ("file", 3, 0o100600, 7, 0)
    assert stat.mtime_ns == 5_000_000_000 and stat.nlink == 1 and stat.has_data
    fs.link("/a/file", "/a/other")
    assert fs.stat("/a/other").nlink == 2 and fs.stat("/a/other").inode == fs.stat("/a/file").inode
    fs.symlink("file", "/a/link")
    assert fs.readlink("/a/link") == "file"
    assert fs.stat("/a/link").kind == "file" and fs.stat("/a/link", follow=False).kind == "symlink"
    assert fs.listdir("/a") == ["file", "link", "other"]
    fs.rename("/a/other", "/b")
    with pytest.raises(FileExistsError):
        fs.rename("/a/file", "/b", replace=False)
    fs.unlink("/b")
    fs.utime("/a/file")
    assert fs.stat("/a/file").mtime_ns > 5_000_000_000
    assert fs.remove_tree("/a") == 3
    assert fs.listdir("/") == [] and not fs.exists("/a")


@pytest.mark.parametrize(
    "kind, number, call",
    [
        (FileNotFoundError, errno.ENOENT, lambda fs: fs.stat("/none")),
        (FileNotFoundError, errno.ENOENT, lambda fs: fs.open("/none/file", "w")),
        (FileExistsError, errno.EEXIST, lambda fs: fs.mkdir("/dir")),
        (FileExistsError, errno.EEXIST, lambda fs: fs.open("/file", "x")),
        (NotADirectoryError, errno.ENOTDIR, lambda fs: fs.listdir("/file")),
        (IsADirectoryError, errno.EISDIR, lambda fs: fs.open("/dir", "rb")),
        (IsADirectoryError, errno.EISDIR, lambda fs: fs.write("/dir", 0, b"x")),
        (OSError, errno.ENOTEMPTY, lambda fs: fs.rmdir("/dir")),
        (OSError, errno.EINVAL, lambda fs: fs.readlink("/file")),
        (OSError, errno.ENAMETOOLONG, lambda fs: fs.create("/" + "x" * 300)),
        (OSError, errno.ELOOP, lambda fs: fs.stat("/loop")),
        (OSError, errno.ELOOP, lambda fs: fs.truncate("/loop", 1)),
        (IsADirectoryError, errno.EISDIR, lambda fs: fs.truncate("/dir", 1)),
    ],
)
def test_failures_are_those_of_os_and_of_keyrack(fs, kind, number, call):
    fs.makedirs("/dir/below")
    fs.create("/file")
    fs.symlink("/loop", "/loop")
    with pytest.raises(kind) as raised:
        call(fs)
    assert isinstance(raised.value, keyrack.FileError) and isinstance(raised.value, keyrack.Error)
    assert raised.value.errno == number


def test_permissions_are_those_of_the_user(tmp_path):
    with keyrack.fs.FileSystem(tmp_path / "log") as fs:
        fs.write_bytes("/secret", b"x", 0o600)
    with keyrack.fs.FileSystem(tmp_path / "log", uid=7, gid=7) as fs:
        with pytest.raises(PermissionError):
            fs.read_bytes("/secret")
        with pytest.raises(PermissionError):
            fs.mkdir("/dir")


def test_names_are_any_bytes_but_slashes_and_zeros(fs):
    names = ["a b", "ünïcode", os.fsdecode(b"\xff\xfe"), "..x", "\n"]
    for name in names:
        fs.create("/" + name)
    assert sorted(fs.listdir("/"), key=os.fsencode) == sorted(names, key=os.fsencode)
    assert fs.exists(b"/\xff\xfe") and fs.exists(os.fsdecode(b"/\xff\xfe"))
    with pytest.raises(OSError):
        fs.create("/a\0b")
    for path in (7, None, object()):
        with pytest.raises(TypeError):
            fs.create(path)


def test_an_open_file_is_as_one_of_the_system(fs, tmp_path):
    """A model: the same calls on a file of the system, at random, in each mode."""
    real = tmp_path / "file"
    draw = random.Random(11)
    for mode in ["wb", "w+b", "r+b", "a+b", "ab", "rb", "r+b", "w+b", "a+b", "rb"] * 3:
        buffering = draw.choice([0, -1, 7])
        with open(real, mode, buffering) as want, fs.open("/file", mode, buffering) as got:
            for _ in range(60):
                size = draw.choice([0, 1, 5, 100, 5000])
                data, place = draw.randbytes(size), draw.randrange(8000)
                name, arguments = draw.choice(
                    [
                        ("write", (data,)),
                        ("read", (size,)),
                        ("read", ()),
                        ("seek", (place,)),
                        ("seek", (0, 2)),
                        ("tell", ()),
                        ("truncate", (place,)),
                        ("readline", ()),
                    ]
                )
                answers = []
                for file in (want, got):
                    try:
                        answers.append(getattr(file, name)(*arguments))
                    except io.UnsupportedOperation:
                        answers.append("refused")
                assert answers[0] == answers[1], (mode, buffering, name, arguments)
        assert fs.read_bytes("/file") == real.read_bytes(), mode


def test_text_has_encodings_and_lines(fs):
    with fs.open("/text", "w", encoding="utf-16", newline="\r\n") as file:
        file.write("grün\nblau\n")
    with fs.open("/text", encoding="utf-16") as file:
        assert list(file) == ["grün\n", "blau\n"]
    assert b"\r\0\n\0" in fs.read_bytes("/text")
    with fs.open("/text", "a") as file:
        assert file.tell() == fs.stat("/text").size


@pytest.mark.parametrize("mode", ["", "rw", "q", "r++", "b", "rx"])
def test_modes_are_checked(fs, mode):
    with pytest.raises(ValueError):
        fs.open("/file", mode)
    with pytest.raises(ValueError):
        fs.open("/file", "rb", encoding="utf-8")
    with pytest.raises(ValueError):
        fs.open("/file", "w", buffering=0)


def test_large_files_are_kept_whole(fs):
    data = random.Random(3).randbytes(5 << 20)
    fs.write_bytes("/large", data)
    assert fs.read_bytes("/large") == data
    with fs.open("/large", "r+b") as file:
        file.seek(3 << 20)
        file.write(b"here")
    assert fs.read("/large", (3 << 20) - 1, 6) == data[(3 << 20) - 1 : 3 << 20] + b"here" + data[
        (3 << 20) + 4 : (3 << 20) + 5
    ]
    assert fs.read("/large", 1 << 60, 1 << 60) == b""
    with pytest.raises((OverflowError, OSError)):
        fs.write("/large", 1 << 63, b"x")
    with pytest.raises(OverflowError):
        fs.read("/large", -1, 1)


def test_long_directories_are_listed_by_pages(fs):
    names = [f"{n:05}" for n in range(2500)]
    for name in names:
        fs.create("/" + name)
    assert fs.listdir("/") == names
    entries, after = fs.list_page("/", "00009", 10)
    assert [name for name, _ in entries] == names[10:20] and after == "00019"


def test_trees_are_made_and_walked(fs):
    fs.makedirs("/a/b/c")
    fs.makedirs("//x//y/")
    fs.create("/a/file")
    fs.symlink("/a", "/x/link")
    assert list(fs.walk("/")) == [
        ("/", ["a", "x"], []),
        ("/a", ["b"], ["file"]),
        ("/a/b", ["c"], []),
        ("/a/b/c", [], []),
        ("/x", ["y"], ["link"]),
        ("/x/y", [], []),
    ]
    with pytest.raises(FileExistsError):
        fs.makedirs("/a/b")
    with pytest.raises(FileExistsError):
        fs.makedirs("/a/file", exist_ok=True)


def test_logs_lie_over_each_other(tmp_path):
    with keyrack.fs.FileSystem(tmp_path / "one") as fs:
        fs.write_bytes("/a", b"1")
        fs.write_bytes("/b", b"1")
    with keyrack.fs.FileSystem(tmp_path / "two", lower=[tmp_path / "one"]) as fs:
        fs.write_bytes("/a", b"2")
        fs.unlink("/b")
        fs.sync()
        with keyrack.fs.FileSystem(
            tmp_path / "two", read_only=True, lower=[tmp_path / "one"]
        ) as view:
            assert view.listdir("/") == ["a"] and view.read_bytes("/a") == b"2"
            with pytest.raises(OSError) as raised:
                view.create("/c")
            assert raised.value.errno == errno.EROFS
    with keyrack.fs.FileSystem(tmp_path / "one", read_only=True) as fs:
        assert fs.listdir("/") == ["a", "b"]


def test_a_closed_name_space_raises_and_frees_its_log(tmp_path):
    fs = keyrack.fs.FileSystem(tmp_path / "log")
    file = fs.open("/file", "w+b", 0)
    with pytest.raises(OSError):
        keyrack.fs.FileSystem(tmp_path / "log")
    pages = fs.scandir("/")
    fs.close()
    fs.close()
    assert fs.closed
    for call in (
        lambda: fs.stat("/"),
        lambda: fs.listdir("/"),
        lambda: file.write(b"x"),
        lambda: next(pages),
        lambda: fs.sync(),
    ):
        with pytest.raises(keyrack.Closed):
            call()
    with keyrack.fs.FileSystem(tmp_path / "log") as fs:
        assert fs.listdir("/") == ["file"]
    with pytest.raises(OSError):
        keyrack.fs.FileSystem(tmp_path / "none", create=False)
    with pytest.raises(TypeError, match="pickled"):
        pickle.dumps(fs)


def test_threads_share_a_name_space_that_is_closed_under_them(tmp_path):
    fs = keyrack.fs.FileSystem(tmp_path / "log")
    go, odd = threading.Barrier(4), []

    def work(name):
        fs.mkdir(name)
        go.wait()
        try:
            for number in range(1 << 30):
                fs.write_bytes(f"{name}/{number}", bytes(5000))
                assert fs.read_bytes(f"{name}/{number}") == bytes(5000)
        except keyrack.Closed:
            pass
        except BaseException as error:
            odd.append(error)

    threads = [threading.Thread(target=work, args=(f"/{n}",)) for n in range(3)]
    for thread in threads:
        thread.start()
    go.wait()
    for _ in range(50):
        fs.listdir("/")
    fs.close()
    for thread in threads:
        thread.join()
    assert odd == []


def test_a_child_of_a_fork_is_refused(tmp_path):
    program = """
import keyrack, keyrack.fs, os, sys
fs = keyrack.fs.FileSystem(sys.argv[1])
fs.create("/file")
child = os.fork()
if child == 0:
    try:
        fs.listdir("/")
    except keyrack.Error as error:
        raise SystemExit(7 if "forked" in str(error) else 1)
    raise SystemExit(2)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
assert fs.listdir("/") == ["file"]
"""
    command = [sys.executable, "-c", program, str(tmp_path / "log")]
    subprocess.run(command, check=True, timeout=60)


def test_a_file_larger_than_memory_is_refused_as_a_whole(fs):
    size = 1 << 43
    fs.create("/a")
    fs.truncate("/a", size)
    with pytest.raises(OSError, match="no memory for 8796093022208 bytes") as raised:
        fs.read_bytes("/a")
    assert raised.value.errno == errno.ENOMEM
    fs.write("/a", size - 1, b"x")
    assert fs.read("/a", size - 4, 100) == b"\0\0\0x"


def test_a_child_of_a_fork_may_ask_whether_a_name_space_is_closed(tmp_path):
    program = """
import keyrack, keyrack.fs, os, sys
fs = keyrack.fs.FileSystem(sys.argv[1])
child = os.fork()
if child == 0:
    try:
        fs.closed
    except keyrack.Error as error:
        raise SystemExit(7 if "forked" in str(error) else 1)
    raise SystemExit(2)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
assert not fs.closed
"""
    command = [sys.executable, "-c", program, str(tmp_path / "log")]
    subprocess.run(command, check=True, timeout=60)
