"""A file system of fsspec over name spaces, for programs that read and write by URL.

    >>> import fsspec
    >>> with fsspec.open("keyrack:///a.txt", "w", log=path) as file:
    ...     _ = file.write("hello")
    >>> fsspec.filesystem("keyrack", log=path).cat("/a.txt")
    b'hello'

The protocol `keyrack` is registered when the package is installed. `log` is the directory of the
log; `lower`, `read_only`, `create`, `uid` and `gid` are as for `keyrack.fs.FileSystem`.
"""

from __future__ import annotations

import errno
import io
import os
import threading
import uuid
import weakref
from datetime import datetime, timezone
from typing import Any

from fsspec.core import has_magic  # type: ignore[import-untyped]
from fsspec.spec import AbstractBufferedFile, AbstractFileSystem  # type: ignore[import-untyped]

from keyrack.fs import FileSystem, Stat

__all__ = ["KeyrackFile", "KeyrackFileSystem"]

_OPEN: weakref.WeakValueDictionary[tuple[Any, ...], FileSystem] = weakref.WeakValueDictionary()
_LOCK = threading.Lock()


def _opened(
    log: str, lower: tuple[str, ...], create: bool, read_only: bool, uid: int, gid: int
) -> FileSystem:
    """The name space of a log. A process opens one once, and fsspec makes a file system for each
    of its threads."""
    where = (os.getpid(), os.path.realpath(log), lower, read_only, uid, gid)
    with _LOCK:
        fs = _OPEN.get(where)
        if fs is None or fs.closed:
            fs = FileSystem(
                log, create=create, read_only=read_only, lower=list(lower), uid=uid, gid=gid
            )
            _OPEN[where] = fs
        return fs


class KeyrackFileSystem(AbstractFileSystem):  # type: ignore[misc]
    """A name space as a file system of fsspec.

    With `auto_mkdir`, the directories above a file are made when it is written.
    """

    protocol = "keyrack"
    root_marker = "/"

    def __init__(
        self,
        log: str | os.PathLike[str] | None = None,
        lower: tuple[str, ...] | list[str] = (),
        create: bool = True,
        read_only: bool = False,
        uid: int = 0,
        gid: int = 0,
        auto_mkdir: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        if log is None:
            raise ValueError(
                "keyrack:// needs the directory of a log: log=DIR, or storage_options={'log': DIR}"
            )
        self.auto_mkdir = auto_mkdir
        logs = os.fspath(log), tuple(map(os.fspath, lower))
        self._arguments = *logs, create, read_only, uid, gid
        self._files = _opened(*self._arguments)

    @property
    def files(self) -> FileSystem:
        """The name space. One that was closed is opened again."""
        if self._files.closed:
            self._files = _opened(*self._arguments)
        return self._files

    def close(self) -> None:
        """Frees the log for other processes. The next call opens it again.

        fsspec keeps its file systems, so a log stays open until then.
        """
        self._files.close()

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(each) for each in path]
        path = os.fspath(path)
        for start in ("keyrack://", "keyrack::"):
            if path.startswith(start):
                path = path[len(start) :]
        return "/" + path.strip("/")

    @property
    def fsid(self) -> str:
        return f"keyrack-{os.path.realpath(self.files.log)}"

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        path = self._strip_protocol(path)
        try:
            entries = [
                self._info(f"{path.rstrip('/')}/{name}", stat)
                for name, stat in self.files.scandir(path)
            ]
        except NotADirectoryError:
            entries = [self.info(path)]
        return entries if detail else [entry["name"] for entry in entries]

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        path = self._strip_protocol(path)
        return self._info(path, self.files.stat(path, follow=False))

    def _info(self, path: str, stat: Stat) -> dict[str, Any]:
        info: dict[str, Any] = {"name": path, "islink": stat.kind == "symlink"}
        if info["islink"]:
            info["destination"] = self.files.readlink(path)
            try:
                stat = self.files.stat(path)
            except OSError:
                # It leads nowhere: what is known is of the link.
                pass
        info["type"] = {"symlink": "link"}.get(stat.kind, stat.kind)
        info["size"] = stat.size
        info["mtime"] = stat.mtime_ns / 1e9
        for fact in ("mode", "uid", "gid", "nlink"):
            info[fact] = getattr(stat, fact)
        info["ino"] = stat.inode
        return info

    def exists(self, path: str, **_: Any) -> bool:
        return self.files.exists(self._strip_protocol(path))

    def modified(self, path: str) -> datetime:
        stat = self.files.stat(self._strip_protocol(path))
        return datetime.fromtimestamp(stat.mtime_ns / 1e9, tz=timezone.utc)

    def mkdir(self, path: str, create_parents: bool = True, **_: Any) -> None:
        path = self._strip_protocol(path)
        if create_parents:
            self.files.makedirs(path)
        else:
            self.files.mkdir(path)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        path = self._strip_protocol(path)
        if path != "/" or not exist_ok:
            self.files.makedirs(path, exist_ok=exist_ok)

    def rmdir(self, path: str) -> None:
        self.files.rmdir(self._strip_protocol(path))

    def rm_file(self, path: str) -> None:
        self.files.unlink(self._strip_protocol(path))

    def _rm(self, path: str) -> None:
        self.rm_file(path)

    def rm(self, path: Any, recursive: bool = False, maxdepth: int | None = None) -> None:
        if isinstance(path, list):
            for each in path:
                self.rm(each, recursive=recursive, maxdepth=maxdepth)
        elif recursive and maxdepth is None and not has_magic(path):
            self.files.remove_tree(self._strip_protocol(path))
        else:
            for each in reversed(self.expand_path(path, recursive=recursive, maxdepth=maxdepth)):
                if recursive and self.isdir(each):
                    self.rmdir(each)
                else:
                    self.rm_file(each)

    def mv(self, path1: str, path2: str, **_: Any) -> None:
        source, target = self._strip_protocol(path1), self._strip_protocol(path2)
        if self.isdir(target) or str(path2).endswith("/"):
            target = f"{target.rstrip('/')}/{source.rsplit('/', 1)[-1]}"
        self.files.rename(source, target)

    def cp_file(self, path1: str, path2: str, **_: Any) -> None:
        source, target = self._strip_protocol(path1), self._strip_protocol(path2)
        if self.isdir(source):
            self.makedirs(target, exist_ok=True)
            return
        parent = self._parent(target)
        self.makedirs(parent, exist_ok=True)
        with self._open(source, "rb") as reader, self._open(target, "wb") as writer:
            while data := reader.read(reader.blocksize):
                writer.write(data)

    def _make_parent(self, path: str) -> None:
        if self.auto_mkdir:
            self.makedirs(self._parent(path), exist_ok=True)

    def touch(self, path: str, truncate: bool = True, **_: Any) -> None:
        path = self._strip_protocol(path)
        self._make_parent(path)
        self.files.create(path)
        if truncate:
            self.files.truncate(path, 0)
        else:
            self.files.utime(path)

    def cat_file(
        self, path: str, start: int | None = None, end: int | None = None, **_: Any
    ) -> bytes:
        path = self._strip_protocol(path)
        size = self.files.stat(path).size
        first, last, _step = slice(start, end).indices(size)
        return self.files.read(path, first, max(last - first, 0))

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **_: Any) -> None:
        path = self._strip_protocol(path)
        self._make_parent(path)
        if mode == "create":
            self.files.create(path, exclusive=True)
        self.files.write_bytes(path, value)

    def open(
        self,
        path: str,
        mode: str = "rb",
        block_size: Any = None,
        cache_options: Any = None,
        compression: str | None = None,
        **options: Any,
    ) -> Any:
        text = {}
        if "b" not in mode:
            mode = mode.replace("t", "") + "b"
            for name in ("encoding", "errors", "newline"):
                if name in options:
                    text[name] = options.pop(name)
            binary = self.open(path, mode, block_size, cache_options, compression, **options)
            return _TextFile(binary, **text)
        return super().open(path, mode, block_size, cache_options, compression, **options)

    def _open(
        self, path: str, mode: str = "rb", block_size: Any = "default", **options: Any
    ) -> KeyrackFile:
        path = self._strip_protocol(path)
        if "r" not in mode:
            self._make_parent(path)
        return KeyrackFile(self, path, mode, block_size, **options)

    def created(self, path: str) -> datetime:
        raise NotImplementedError("name spaces keep the times of changes, not of makings")


class KeyrackFile(AbstractBufferedFile):  # type: ignore[misc]
    """An open file of `KeyrackFileSystem`.

    What is written anew goes to a file beside it, which takes the name when it is closed, or at
    the end of a transaction of fsspec. So nobody sees a part of it. A `with` block that raises
    forgets it.
    """

    fs: KeyrackFileSystem

    def __init__(
        self, fs: KeyrackFileSystem, path: str, mode: str, block_size: Any, **options: Any
    ) -> None:
        self._files = fs.files
        self._part: str | None = None
        self._is_exclusive = "x" in mode
        if "r" in mode and fs.files.stat(path).kind == "directory":
            raise IsADirectoryError(errno.EISDIR, "it is a directory", path)
        if self._is_exclusive and fs.exists(path):
            raise FileExistsError(errno.EEXIST, "it exists already", path)
        super().__init__(fs, path, mode, block_size, **options)
        if "a" in mode:
            if not self.autocommit:
                raise ValueError("a transaction has whole files; write the file anew")
            self._files.create(path)
            self.offset = self.loc = self._files.stat(path).size

    def _fetch_range(self, start: int, end: int) -> bytes:
        return self._files.read(self.path, start, end - start)

    def _initiate_upload(self) -> None:
        folder = self.path.rsplit("/", 1)[0]
        self._part = f"{folder}/.{uuid.uuid4().hex}.part"
        self._files.create(self._part, exclusive=True)

    def _upload_chunk(self, final: bool = False) -> bool:
        self._files.write(self._part or self.path, self.offset, self.buffer.getvalue())
        if final and self.autocommit:
            self.commit()
        return True

    def __exit__(self, kind: Any, value: Any, traceback: Any) -> None:
        if kind is not None:
            self.abandon()
        self.close()

    def abandon(self) -> None:
        """Forgets what was written anew, so that a close gives it no name."""
        if self.closed or self.mode not in ("wb", "xb"):
            return
        # No more is written: a close takes it for done.
        self.forced = True
        self.buffer = io.BytesIO()
        self.discard()

    def commit(self) -> None:
        """Gives what was written its name."""
        if self._part is not None:
            part, self._part = self._part, None
            self._files.rename(part, self.path, replace=not self._is_exclusive)

    def discard(self) -> None:
        """Forgets what was written."""
        if self._part is not None:
            part, self._part = self._part, None
            self._files.unlink(part)


class _TextFile(io.TextIOWrapper):
    """Text of an open file, which a `with` block that raises forgets as it does bytes."""

    def __exit__(self, kind: Any, value: Any, traceback: Any) -> None:
        if kind is not None and isinstance(self.buffer, KeyrackFile) and not self.closed:
            try:
                self.flush()
            finally:
                self.buffer.abandon()
        self.close()
