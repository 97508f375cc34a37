"""Makes the paths of requests absolute, and turns failed system calls into errors."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Final

from sbx_jupyter.errors import (
    FailedPreconditionError,
    InternalError,
    InvalidArgumentError,
    NoSpaceError,
    NotFoundError,
    PermissionDeniedError,
    ResourceExhaustedError,
    SbxError,
)

if TYPE_CHECKING:
    from sbx_jupyter.agent.users import User

MAX_PATH: Final = 4096

_BY_ERRNO: Final[dict[int, type[SbxError]]] = {
    errno.ENOENT: NotFoundError,
    errno.ENOTDIR: NotFoundError,
    errno.ELOOP: FailedPreconditionError,
    errno.EACCES: PermissionDeniedError,
    errno.EPERM: PermissionDeniedError,
    errno.ENAMETOOLONG: InvalidArgumentError,
    errno.ENOSPC: NoSpaceError,
    errno.EDQUOT: NoSpaceError,
    errno.EMFILE: ResourceExhaustedError,
    errno.ENFILE: ResourceExhaustedError,
    errno.ENOMEM: ResourceExhaustedError,
    errno.EAGAIN: ResourceExhaustedError,
}


def resolve(path: str, user: User, default_cwd: str = "") -> str:
    """The absolute path that a request means (interface 3.3); nothing is looked up.

    Raises ``InvalidArgumentError`` for what cannot be a path.
    """
    check(path)
    if not path:
        path = default_cwd or user.home
    if path.startswith("~"):
        if path[1:2] not in ("", "/"):
            raise InvalidArgumentError("cannot expand user-specific home dir")
        path = f"{user.home}/{path[2:]}"
    elif not path.startswith("/"):
        path = os.path.normpath(f"{user.home}/{path}")
    resolved = tidy(path)
    check(resolved)
    return resolved


def check(path: object) -> None:
    """Raise ``InvalidArgumentError`` for a value that no system call would take as a path."""
    if not isinstance(path, str):
        raise InvalidArgumentError("a path must be text")
    try:
        encoded = os.fsencode(path)
    except UnicodeEncodeError:
        raise InvalidArgumentError("a path must be valid Unicode") from None
    if b"\0" in encoded:
        raise InvalidArgumentError("a path must not contain a NUL byte")
    if len(encoded) > MAX_PATH:
        raise InvalidArgumentError(f"a path must not be longer than {MAX_PATH} bytes")


def tidy(path: str) -> str:
    """An absolute path without ``//``, ``/./`` and a slash at its end.

    ``..`` stays: beside a symbolic link it is for the kernel to say where that leads.
    """
    return "/" + "/".join(part for part in path.split("/") if part not in ("", "."))


def clean(path: str) -> str:
    """An absolute path as answers show it: without ``..``, whatever the kernel makes of that."""
    return os.path.normpath(path) if "/.." in path else path


def failure(error: OSError, what: str) -> SbxError:
    """The error that a failed system call stands for; ``what`` says what was being done."""
    kind = _BY_ERRNO.get(error.errno or 0, InternalError)
    return kind(f"{what}: {error.strerror or error}")
