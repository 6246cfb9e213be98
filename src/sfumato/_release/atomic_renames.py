"""Renames that replace nothing, and renames that change places: in one step where the system has one.

Linux has both as `renameat2`. Elsewhere, and on file systems that do not know it, a new name is given by what comes
next to it, and changing places is left to the caller.
"""

from __future__ import annotations

import ctypes
import errno
import os
from pathlib import Path

NO_REPLACE, EXCHANGE = 1, 2
AT_FDCWD = -100
"""Names are relative to the working directory: AT_FDCWD."""
UNSUPPORTED_ERRORS = frozenset({errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EPERM})
"""What a system says that has no such call, or forbids calls it does not know, and a file system that cannot do it."""
OCCUPIED_ERRORS = frozenset({errno.ENOTEMPTY, errno.ENOTDIR, errno.EISDIR})


def rename_new(old: Path, new: Path) -> None:
    """Rename, unless the new name is taken: then FileExistsError, and everything is as it was."""
    if renameat2(old, new, NO_REPLACE):
        return
    if not old.is_dir() or old.is_symlink():
        try:
            os.link(old, new, follow_symlinks=False)  # a second name is never given over another file
        except OSError as error:
            if error.errno not in UNSUPPORTED_ERRORS:
                raise
        else:
            old.unlink()
            return
    if os.path.lexists(new):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(new))
    try:
        old.rename(new)  # a directory takes the place of an empty directory at most
    except OSError as error:
        if error.errno not in OCCUPIED_ERRORS:
            raise
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(new)) from error


def exchange(one: Path, other: Path) -> bool:
    """Let two files or directories change places in one step; False if that cannot be done here."""
    return renameat2(one, other, EXCHANGE)


def renameat2(old: Path, new: Path, flags: int) -> bool:
    """Rename as Linux can; False if there is no such call, and then nothing has changed."""
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
