"""Finds files for programs that may see the whole tree but change one directory only.

The result is a descriptor (``O_PATH``) of a file that was below the directory when the kernel
resolved the path. It keeps standing for that file, whatever becomes of the path.
"""

from __future__ import annotations

import errno
import os
import stat
from collections import deque
from typing import Final

from sbx_jupyter.isolation.kernel import syscalls

_BENEATH: Final = syscalls.RESOLVE_BENEATH | syscalls.RESOLVE_NO_MAGICLINKS
_MOST_STEPS: Final = 512
_MOST_LINKS: Final = 40
_PATH: Final = os.O_PATH | os.O_CLOEXEC


def refusal(code: int = errno.EACCES) -> OSError:
    """The ``OSError`` with this code, by default that of a missing permission."""
    return OSError(code, os.strerror(code))


class ContainedDirectory:
    """One directory and what is below it."""

    def __init__(self, root: str) -> None:
        self._root = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        self._name = os.readlink(b"/proc/self/fd/%d" % self._root)
        self._parts = self._name.split(b"/")[1:]

    def open(self, path: bytes, *, follow: bool) -> int:
        """A descriptor of the file at an absolute path.

        Raises ``OSError``: EACCES for what is not below the directory, there or not.
        """
        inner = self._strip(path)
        flags = _PATH | (0 if follow else os.O_NOFOLLOW)
        try:
            return syscalls.openat2(self._root, os.fsdecode(inner or b"."), flags, _BENEATH)
        except OSError as error:
            if error.errno not in (errno.EXDEV, errno.EAGAIN):
                raise
        # A link with an absolute path, perhaps back into the directory; or something moved.
        return self._walk(inner, follow=follow)

    def take(self, process_link: bytes) -> int:
        """A descriptor of the file behind a link such as ``/proc/1/fd/3``. Raises ``OSError``."""
        if not self.holds(os.readlink(process_link)):
            raise refusal()
        fd = os.open(process_link, _PATH)
        if not self.holds(os.readlink(b"/proc/self/fd/%d" % fd)):
            os.close(fd)  # another one by now
            raise refusal()
        return fd

    def holds(self, name: bytes) -> bool:
        """Whether the kernel's name of a file says that it is below the directory."""
        return name == self._name or name.startswith(self._name + b"/")

    def _strip(self, path: bytes) -> bytes:
        if self.holds(path):
            return path[len(self._name) :].lstrip(b"/")
        parts = [part for part in path.split(b"/") if part not in (b"", b".")]
        if parts[: len(self._parts)] != self._parts:
            raise refusal()
        return b"/".join(parts[len(self._parts) :])

    def _walk(self, inner: bytes, *, follow: bool) -> int:
        """Go step by step, so that links with absolute paths can be judged."""
        stack = [os.dup(self._root)]
        todo = deque(inner.split(b"/"))
        links = 0
        try:
            for _ in range(_MOST_STEPS):
                while todo and todo[0] in (b"", b"."):
                    todo.popleft()
                if not todo:
                    return stack.pop()
                name = todo.popleft()
                if name == b"..":
                    if len(stack) == 1:
                        raise refusal()
                    os.close(stack.pop())
                    continue
                fd = os.open(name, _PATH | os.O_NOFOLLOW, dir_fd=stack[-1])
                if not stat.S_ISLNK(os.fstat(fd).st_mode) or not (todo or follow):
                    stack.append(fd)
                    continue
                links += 1
                try:
                    target = os.readlink(b"", dir_fd=fd)
                finally:
                    os.close(fd)
                if target.startswith(b"/"):
                    target = self._strip(target)
                    while len(stack) > 1:
                        os.close(stack.pop())
                todo.extendleft(reversed(target.split(b"/")))
                if links > _MOST_LINKS:
                    raise refusal(errno.ELOOP)
            raise refusal(errno.ENAMETOOLONG)
        finally:
            for fd in stack:
                os.close(fd)
