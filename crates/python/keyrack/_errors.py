"""The classes of exceptions. The native module raises them."""

from __future__ import annotations

__all__ = [
    "Closed",
    "Conflict",
    "Corruption",
    "Deadlock",
    "Error",
    "FileError",
    "Io",
    "Locked",
    "NoSpace",
    "NotKept",
    "NotWritten",
    "Poisoned",
    "UnsupportedCompression",
    "Usage",
]


class Error(Exception):
    """The base of all exceptions of this package, but for wrong types and keys."""

    __module__ = "keyrack"


class Usage(Error, ValueError):
    """The call or an option cannot be. Correct the program."""

    __module__ = "keyrack"


class Closed(Error):
    """The store, transaction, snapshot or batch is of no use any more."""

    __module__ = "keyrack"


class Locked(Error):
    """Another process, or another handle, has the directory open."""

    __module__ = "keyrack"


class Io(Error):
    """The machine refused."""

    __module__ = "keyrack"


class NoSpace(Io):
    """The disk is full, and writes are refused. They work again by themselves."""

    __module__ = "keyrack"


class Poisoned(Error):
    """An earlier failure was final, and the store only reads. Close and open it."""

    __module__ = "keyrack"


class UnsupportedCompression(Error):
    """A file needs a codec that this build lacks. Nothing is damaged."""

    __module__ = "keyrack"


class Corruption(Error):
    """A file does not hold what was written to it. `path` and `offset` say where, if known."""

    __module__ = "keyrack"
    path: str | None = None
    offset: int | None = None


class Conflict(Error):
    """Another writer has changed `key`, which the transaction depends on. Nothing was written."""

    __module__ = "keyrack"
    key: bytes = b""
    space: str | None = None


class Deadlock(Error):
    """The transaction that has locked `key` waits for this one. Run this one again."""

    __module__ = "keyrack"
    key: bytes = b""
    space: str | None = None


class NotKept(Error):
    """A feed asked for changes after `position` that the log does not keep any more. Copy the
    store and go on from there, or begin at `first` without what is before."""

    __module__ = "keyrack"
    position: int = 0
    first: int = 0


class NotWritten(Error):
    """A feed asked for a `position` that the store does not have: a power loss took it, or it is of
    another store. `end` is the last one before it."""

    __module__ = "keyrack"
    position: int = 0
    end: int = 0


class FileError(Error, OSError):
    """A name space refused or failed. It is also the exception of its error number, such as
    `FileNotFoundError`."""

    __module__ = "keyrack"


_NUMBERS: dict[int, type[FileError]] = {}


def of_errno(number: int, text: str) -> FileError:
    """The exception of an error number, which is also that of the interpreter."""
    kind = _NUMBERS.get(number)
    if kind is None:
        base = type(OSError(number, ""))
        if base is OSError:
            kind = FileError
        else:
            kind = type(base.__name__, (FileError, base), {"__module__": "keyrack"})
        _NUMBERS[number] = kind
    return kind(number, text)
