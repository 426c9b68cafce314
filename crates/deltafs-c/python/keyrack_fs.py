"""Name spaces of files in logs or at servers: a face of libkeyrack_fs for Python 3.8 and later.

    import keyrack_fs
    with keyrack_fs.open("job", create=True) as fs:   # or keyrack_fs.connect("10.0.0.1:10101")
        fs.mkdir("/out")
        fs.create("/out/a")
        for entry in fs.list("/out"):
            print(entry.name, entry.stat.size)

Paths are bytes, or text that is taken as UTF-8; names come back as bytes. What fails raises an
OSError of the kind that the errno value stands for, FileNotFoundError and so on. The library is
looked for in $KEYRACK_FS_LIBRARY, beside this file, and where the system has its libraries.
"""

import ctypes
import os
import pathlib

_NAME_SIZE = 256
_PATH_SIZE = 4097
_TYPE_MASK, _FILE, _DIRECTORY, _SYMLINK = 0o170000, 0o100000, 0o040000, 0o120000


class Error(OSError):
    """A failure whose errno value has no class of its own."""


class Stat(ctypes.Structure):
    """Facts. Times are nanoseconds since 1970."""

    _fields_ = [
        ("inode_high", ctypes.c_uint64),
        ("inode_low", ctypes.c_uint64),
        ("size", ctypes.c_uint64),
        ("nlink", ctypes.c_uint64),
        ("mtime_ns", ctypes.c_uint64),
        ("ctime_ns", ctypes.c_uint64),
        ("mode", ctypes.c_uint32),
        ("uid", ctypes.c_uint32),
        ("gid", ctypes.c_uint32),
        ("has_inline_data", ctypes.c_uint32),
    ]

    @property
    def inode(self):
        return self.inode_high << 64 | self.inode_low

    @property
    def permissions(self):
        return self.mode & 0o7777

    @property
    def is_file(self):
        return self.mode & _TYPE_MASK == _FILE

    @property
    def is_dir(self):
        return self.mode & _TYPE_MASK == _DIRECTORY

    @property
    def is_symlink(self):
        return self.mode & _TYPE_MASK == _SYMLINK


class _Entry(ctypes.Structure):
    _fields_ = [
        ("stat", Stat),
        ("name_len", ctypes.c_uint32),
        ("name", ctypes.c_ubyte * _NAME_SIZE),
    ]


class Entry:
    """An entry of a listing: its name, and its facts."""

    def __init__(self, entry):
        self.name = bytes(entry.name[: entry.name_len])
        self.stat = Stat.from_buffer_copy(entry.stat)

    def __repr__(self):
        return f"Entry({self.name!r})"


def _load():
    named = os.environ.get("KEYRACK_FS_LIBRARY")
    beside = pathlib.Path(__file__).with_name("libkeyrack_fs.so")
    library = ctypes.CDLL(named or (str(beside) if beside.exists() else "libkeyrack_fs.so"))
    text, log, u32, u64 = ctypes.c_char_p, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint64
    size, place = ctypes.c_size_t, ctypes.POINTER(ctypes.c_void_p)
    stat = ctypes.POINTER(Stat)
    number, count = ctypes.c_int, ctypes.c_int64
    calls = {
        "version": (u32,),
        "message": (text,),
        "open": (number, text, u32, u32, u32, place),
        "connect": (number, text, text, u32, u32, place),
        "close": (number, log),
        "sync": (number, log),
        "mkdir": (number, log, text, u32),
        "create": (number, log, text, u32, u32),
        "symlink": (number, log, text, text),
        "unlink": (number, log, text),
        "rmdir": (number, log, text),
        "rename": (number, log, text, text, u32),
        "chmod": (number, log, text, u32),
        "chown": (number, log, text, u32, u32),
        "utime": (number, log, text, u64),
        "stat_path": (number, log, text, stat),
        "lstat_path": (number, log, text, stat),
        "readlink": (count, log, text, text, size),
        "read": (count, log, text, u64, text, size),
        "truncate": (number, log, text, u64),
        "write": (count, log, text, u64, text, size),
        "opendir": (number, log, text, text, place),
        "readdir": (number, log, ctypes.POINTER(_Entry)),
        "closedir": (None, log),
    }
    for name, (result, *arguments) in calls.items():
        call = getattr(library, "keyrack_fs_" + name)
        call.restype, call.argtypes = result, arguments
    if library.keyrack_fs_version() != 2:
        raise ImportError("libkeyrack_fs has another version of its interface than 2")
    return library


_library = _load()


def _call(name, *arguments):
    result = getattr(_library, "keyrack_fs_" + name)(*arguments)
    if result < 0:
        message = _library.keyrack_fs_message().decode("utf-8", "replace")
        error = OSError(-result, message)
        raise error if type(error) is not OSError else Error(-result, message)
    return result


def _bytes(path):
    path = path.encode() if isinstance(path, str) else bytes(path)
    if b"\0" in path:
        raise ValueError("a path must not hold a zero byte")
    return path


def open(directory, create=False, read_only=False, uid=0, gid=0):
    """Opens the log in a directory for a user; 0 may do everything."""
    log = ctypes.c_void_p()
    flags = (1 if create else 0) | (2 if read_only else 0)
    _call("open", os.fsencode(directory), flags, uid, gid, ctypes.byref(log))
    return Fs(log)


def connect(server, token=None, uid=0, gid=0):
    """Connects to the servers of a name space, the first of which is at an address, for a user."""
    log = ctypes.c_void_p()
    token = None if token is None else _bytes(token)
    _call("connect", _bytes(server), token, uid, gid, ctypes.byref(log))
    return Fs(log)


class Fs:
    """An open name space."""

    def __init__(self, log):
        self._log = log

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _do(self, name, *arguments):
        if self._log is None:
            raise ValueError("the name space is closed")
        return _call(name, self._log, *arguments)

    def close(self):
        """Ends the use. Listings that were not read to their end must not be read on."""
        log, self._log = self._log, None
        if log is not None:
            _call("close", log)

    def sync(self):
        self._do("sync")

    def mkdir(self, path, mode=0o755):
        self._do("mkdir", _bytes(path), mode)

    def create(self, path, mode=0o644, exclusive=False):
        self._do("create", _bytes(path), mode, int(exclusive))

    def symlink(self, target, path):
        self._do("symlink", _bytes(target), _bytes(path))

    def unlink(self, path):
        self._do("unlink", _bytes(path))

    def rmdir(self, path):
        self._do("rmdir", _bytes(path))

    def rename(self, old, new, exclusive=False):
        self._do("rename", _bytes(old), _bytes(new), int(exclusive))

    def chmod(self, path, mode):
        self._do("chmod", _bytes(path), mode)

    def chown(self, path, uid, gid):
        self._do("chown", _bytes(path), uid, gid)

    def utime(self, path, mtime_ns):
        self._do("utime", _bytes(path), mtime_ns)

    def stat(self, path):
        """Facts; links are followed."""
        stat = Stat()
        self._do("stat_path", _bytes(path), ctypes.byref(stat))
        return stat

    def lstat(self, path):
        stat = Stat()
        self._do("lstat_path", _bytes(path), ctypes.byref(stat))
        return stat

    def readlink(self, path):
        room = ctypes.create_string_buffer(_PATH_SIZE)
        length = self._do("readlink", _bytes(path), room, _PATH_SIZE)
        return room.raw[:length]

    def read(self, path, offset=0, count=3901):
        """Up to `count` bytes of a file from `offset` on."""
        room = ctypes.create_string_buffer(max(count, 1))
        length = self._do("read", _bytes(path), offset, room, count)
        return room.raw[:length]

    def truncate(self, path, size):
        """Cuts a file to a size, or extends it with zeros."""
        self._do("truncate", _bytes(path), size)

    def write(self, path, data, offset=0):
        data = bytes(data)
        return self._do("write", _bytes(path), offset, data, len(data))

    def list(self, path, after=None):
        """The entries of a directory in the order of their names, from behind `after` on."""
        listing = ctypes.c_void_p()
        after = None if after is None else _bytes(after)
        self._do("opendir", _bytes(path), after, ctypes.byref(listing))
        try:
            entry = _Entry()
            while self._log is not None and _call("readdir", listing, ctypes.byref(entry)):
                yield Entry(entry)
        finally:
            _library.keyrack_fs_closedir(listing)
