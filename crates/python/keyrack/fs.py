"""Name spaces of files: a log of this process, over logs of others that are only read.

    >>> import keyrack.fs
    >>> with keyrack.fs.FileSystem(path) as fs:
    ...     fs.mkdir("/out")
    ...     with fs.open("/out/a.txt", "w") as file:
    ...         _ = file.write("hello")
    ...     fs.listdir("/out")
    ['a.txt']

Paths begin at the root of the name space; they are text, bytes or path objects. What fails raises
an exception of the kind that `os` would, `FileNotFoundError` and so on, which is a
`keyrack.FileError` as well.
"""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Iterator
from typing import IO, Any, TypeAlias

from keyrack._errors import of_errno
from keyrack._keyrack import Files, Stat

__all__ = ["FileSystem", "RawFile", "Stat"]

Path: TypeAlias = "str | bytes | os.PathLike[str]"

_READ = 256 << 10
"""Bytes that a file is read in, if nothing else is asked for."""


class FileSystem(Files):
    """An open name space: the log in the directory `log`, over the logs `lower`, the highest first.

    One process has a log open for writing. With `read_only=True` nothing is written, and others
    may write to the log meanwhile. Calls are made for the user `uid` with the group `gid`; 0 may
    do everything.

    >>> with FileSystem(path) as fs:
    ...     fs.write_bytes("/a", b"hello")
    ...     fs.stat("/a").size
    5
    """

    def open(
        self,
        path: Path,
        mode: str = "r",
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
    ) -> IO[Any]:
        """Opens a file, as the `open` of Python does.

        The file is known by its path: each read and write looks it up.

        >>> with FileSystem(path) as fs:
        ...     with fs.open("/a", "w+", encoding="utf-8") as file:
        ...         _ = file.write("hello")
        ...         _ = file.seek(1)
        ...         file.read()
        'ello'
        """
        text = "b" not in mode
        if not text and (encoding is not None or errors is not None or newline is not None):
            raise ValueError("a binary file has no encoding, errors or newline")
        raw = RawFile(self, path, mode.replace("b", "").replace("t", ""))
        if buffering == 0:
            if text:
                raise ValueError('a text file has a buffer; open it with "b"')
            return raw  # type: ignore[return-value]
        size = buffering if buffering > 1 else _READ
        buffered: io.BufferedRandom | io.BufferedWriter | io.BufferedReader
        if raw.readable() and raw.writable():
            buffered = io.BufferedRandom(raw, size)
        elif raw.writable():
            buffered = io.BufferedWriter(raw, size)
        else:
            buffered = io.BufferedReader(raw, size)
        if not text:
            return buffered
        return io.TextIOWrapper(buffered, encoding, errors, newline, line_buffering=buffering == 1)

    def scandir(self, path: Path) -> Iterator[tuple[str, Stat]]:
        """The names of a directory with the facts of each, in the order of the names.

        Fetched by pages: what comes or goes meanwhile may be missed or given.

        >>> with FileSystem(path) as fs:
        ...     fs.create("/a")
        ...     [(name, stat.size) for name, stat in fs.scandir("/")]
        [('a', 0)]
        """
        after: str | None = None
        while True:
            entries, after = self.list_page(path, after)
            yield from entries
            if after is None:
                return

    def listdir(self, path: Path) -> list[str]:
        """The names of a directory, in their order."""
        return [name for name, _ in self.scandir(path)]

    def read_bytes(self, path: Path) -> bytes:
        """All bytes of a file."""
        return self.read(path, 0, self.stat(path).size)

    def exists(self, path: Path) -> bool:
        """Whether a path names anything; links are followed."""
        try:
            self.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def makedirs(self, path: Path, mode: int = 0o755, exist_ok: bool = False) -> None:
        """Makes a directory, and those above it that are missing.

        >>> with FileSystem(path) as fs:
        ...     fs.makedirs("/a/b/c")
        ...     fs.makedirs("/a/b/c", exist_ok=True)
        ...     fs.listdir("/a/b")
        ['c']
        """
        whole = os.fsdecode(path)
        at = 0
        while (at := whole.find("/", at + 1)) > 0:
            if whole[at - 1] != "/" and whole[at:].strip("/"):
                try:
                    self.mkdir(whole[:at], mode)
                except FileExistsError:
                    pass
        try:
            self.mkdir(whole, mode)
        except FileExistsError:
            if not exist_ok or self.stat(whole).kind != "directory":
                raise

    def walk(self, top: Path) -> Iterator[tuple[str, list[str], list[str]]]:
        """Directories from `top` on, each with the names of directories and others in it.

        Names that are removed from the list of directories are not gone into. Links are not
        followed.
        """
        folder = os.fsdecode(top)
        below: list[str] = []
        others: list[str] = []
        for name, stat in self.scandir(folder):
            (below if stat.kind == "directory" else others).append(name)
        yield folder, below, others
        for name in below:
            yield from self.walk(f"{folder.rstrip('/')}/{name}")


class RawFile(io.RawIOBase):
    """An open file without a buffer. `FileSystem.open` gives it one."""

    def __init__(self, fs: FileSystem, path: Path, mode: str) -> None:
        super().__init__()
        kind = mode.replace("+", "", 1)
        if kind not in ("r", "w", "a", "x"):
            raise ValueError(f"the mode must be r, w, a or x, with + and b or t (got {mode!r})")
        self._fs = fs
        self._path = path
        self._at = 0
        self._reads = kind == "r" or "+" in mode
        self._writes = kind != "r" or "+" in mode
        self._appends = kind == "a"
        if kind != "r":
            fs.create(path, exclusive=kind == "x")
        stat = fs.stat(path)
        if stat.kind == "directory":
            raise of_errno(errno.EISDIR, f"{os.fsdecode(path)}: it is a directory")
        if kind == "w" and stat.size > 0:
            fs.truncate(path, 0)
        if self._appends:
            self._at = stat.size
        self.mode = mode
        self.name = path

    def readable(self) -> bool:
        self._check()
        return self._reads

    def writable(self) -> bool:
        self._check()
        return self._writes

    def seekable(self) -> bool:
        self._check()
        return True

    def readinto(self, buffer: Any) -> int:
        if not self.readable():
            raise io.UnsupportedOperation("the file is not open for reading")
        view = memoryview(buffer).cast("B")
        data = self._fs.read(self._path, self._at, len(view))
        view[: len(data)] = data
        self._at += len(data)
        return len(data)

    def readall(self) -> bytes:
        if not self.readable():
            raise io.UnsupportedOperation("the file is not open for reading")
        left = max(self._fs.stat(self._path).size - self._at, 0)
        data = self._fs.read(self._path, self._at, left)
        self._at += len(data)
        return data

    def write(self, data: Any) -> int:
        if not self.writable():
            raise io.UnsupportedOperation("the file is not open for writing")
        if self._appends:
            self._at = self._fs.stat(self._path).size
        count = memoryview(data).nbytes
        self._fs.write(self._path, self._at, data)
        self._at += count
        return count

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._check()
        if whence == os.SEEK_SET:
            start = 0
        elif whence == os.SEEK_CUR:
            start = self._at
        elif whence == os.SEEK_END:
            start = self._fs.stat(self._path).size
        else:
            raise ValueError(f"whence must be 0, 1 or 2 (got {whence})")
        if start + offset < 0:
            raise of_errno(errno.EINVAL, f"a place in a file must not be below 0 (got {start + offset})")
        self._at = start + offset
        return self._at

    def tell(self) -> int:
        self._check()
        return self._at

    def truncate(self, size: int | None = None) -> int:
        if not self.writable():
            raise io.UnsupportedOperation("the file is not open for writing")
        size = self._at if size is None else size
        self._fs.truncate(self._path, size)
        return size

    def _check(self) -> None:
        if self.closed:
            raise ValueError("the file is closed")
