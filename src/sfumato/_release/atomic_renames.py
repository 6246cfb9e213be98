"""Renames files without replacing others, and exchanges two names, in one step where the system supports it.

Linux supports both with `renameat2`. Other systems rename by the nearest equivalent, and the caller makes the exchange.
"""

from __future__ import annotations

import ctypes
import errno
import os
from pathlib import Path

NO_REPLACE, EXCHANGE = 1, 2
AT_FDCWD = -100
"""The value that makes names relative to the working directory."""
UNSUPPORTED_ERRORS = frozenset({errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EPERM})
"""The errors if the system lacks this call or forbids unknown calls, or if the file system does not support it."""
OCCUPIED_ERRORS = frozenset({errno.ENOTEMPTY, errno.ENOTDIR, errno.EISDIR})


def rename_new(old: Path, new: Path) -> None:
    """Renames a file. If the new name exists, raises FileExistsError and changes nothing."""
    if renameat2(old, new, NO_REPLACE):
        return
    if not old.is_dir() or old.is_symlink():
        try:
            os.link(old, new, follow_symlinks=False)  # a link never replaces another file
        except OSError as error:
            if error.errno not in UNSUPPORTED_ERRORS:
                raise
        else:
            old.unlink()
            return
    if os.path.lexists(new):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(new))
    try:
        old.rename(new)  # a directory replaces at most an empty directory
    except OSError as error:
        if error.errno not in OCCUPIED_ERRORS:
            raise
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(new)) from error


def exchange(one: Path, other: Path) -> bool:
    """Exchanges two files or directories in one step. Returns False if this is not possible here."""
    return renameat2(one, other, EXCHANGE)


def renameat2(old: Path, new: Path, flags: int) -> bool:
    """Renames with the Linux call. If there is no such call, returns False and changes nothing."""
    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if call is None:
        return False
    call.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)
    if call(AT_FDCWD, os.fsencode(old), AT_FDCWD, os.fsencode(new), flags) == 0:
        return True
    number = ctypes.get_errno()
    if number in UNSUPPORTED_ERRORS:
        return False
    raise OSError(number, os.strerror(number), str(new))
