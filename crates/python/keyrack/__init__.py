"""Ordered key-value stores like dictionaries, and name spaces of files.

    >>> import keyrack
    >>> with keyrack.open(path) as db:
    ...     db[b"fruit/apple"] = b"red"
    ...     list(db[b"fruit/":b"fruit0"])
    [(b'fruit/apple', b'red')]

Keys and values are bytes. `docs/python.md` of the repository has the calls, the rules of threads
and processes, and the files.
"""

import atexit as _atexit
import os as _os

from keyrack._errors import (
    Closed,
    Conflict,
    Corruption,
    Deadlock,
    Error,
    FileError,
    Io,
    Locked,
    NoSpace,
    NotKept,
    NotWritten,
    Poisoned,
    UnsupportedCompression,
    Usage,
)
from keyrack._keyrack import (
    BackupInfo,
    Batch,
    Change,
    Changes,
    KeySpace,
    Range,
    Repository,
    Snapshot,
    Spaces,
    Store,
    Transaction,
    View,
    Write,
    _ending,
    _forked,
    decode_set,
    encode_set,
    open,
    open_spaces,
)

__all__ = [
    "BackupInfo",
    "Batch",
    "Change",
    "Changes",
    "Closed",
    "Conflict",
    "Corruption",
    "Deadlock",
    "Error",
    "FileError",
    "Io",
    "KeySpace",
    "Locked",
    "NoSpace",
    "NotKept",
    "NotWritten",
    "Poisoned",
    "Range",
    "Repository",
    "Snapshot",
    "Spaces",
    "Store",
    "Transaction",
    "UnsupportedCompression",
    "Usage",
    "View",
    "Write",
    "decode_set",
    "encode_set",
    "open",
    "open_spaces",
]

# A child has no threads of the stores of its parent: they refuse calls there.
_os.register_at_fork(after_in_child=_forked)

# An interpreter that ends has no lock for the threads that call listeners.
_atexit.register(_ending)
