"""Changes to the file system, and descriptors of files for the engine to read and write.

Everything runs with the rights of the sandbox's root; the selected user decides where relative
paths start and who owns what is made (interface 3.3 to 4.6). What is opened is looked at before it
is used, and nothing is opened in a way that could wait: the files belong to hostile code.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from typing import TYPE_CHECKING, Final

from sbx_jupyter.agent.files import (
    contents,
    drafts,
    entries,
    own_entries,
    paths,
    removal,
    tree_moves,
)
from sbx_jupyter.agent.wire import Encoded
from sbx_jupyter.agent.workers import TimeBudget
from sbx_jupyter.errors import (
    AlreadyExistsError,
    InternalError,
    InvalidArgumentError,
    NotFoundError,
)

if TYPE_CHECKING:
    from sbx_jupyter.agent.operation import Answer, Body
    from sbx_jupyter.agent.users import User, Users


_SAFE: Final = os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_LONG_COPY: Final = 4 << 20
"""Bytes above which a worker copies."""
_NO_XATTR: Final = (errno.ENOTSUP, errno.EPERM, errno.ENOSPC, errno.E2BIG, errno.ERANGE)
_PRIVATE_TREES: Final = ("/home/", "/root/", "/tmp/", "/var/tmp/")
"""The sandbox's own directories where nothing can be mounted; most others are the host's."""
_MAGIC_DEVICES: Final = ("/proc", "/sys")


class Files:
    """The operations on files of one sandbox; each returns an answer and its descriptors."""

    def __init__(self, users: Users, root: str = "", *, budget: TimeBudget | None = None) -> None:
        """``root`` is the directory that stands for ``/`` where nothing can be mounted.

        What lasts longer than ``budget`` raises ``BudgetExceeded``, to be done again by a worker.
        """
        self._users = users
        self._budget = budget or TimeBudget()
        self._root = root
        self.is_confined = bool(root)
        self.default_cwd = ""

    def resolve(self, body: Body) -> Answer:
        return {"path": self.locate(body["path"], self._users.find(body.get("user")))}, ()

    def stat(self, body: Body) -> Answer:
        path = self.locate(body["path"], self._users.find(body.get("user")))
        return {"entry": entries.read_entry(path, self._users)}, ()

    def list_dir(self, body: Body) -> Answer:
        path = self.locate(body["path"], self._users.find(body.get("user")))
        depth = int(body.get("depth") or 1)
        try:
            found = entries.EntryReader(self._users).list(path, depth, self._budget)
            return Encoded(entries.encode_listing(found)), ()
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENOTDIR):
                raise NotFoundError(f"directory not found: {path}") from error
            raise paths.failure(error, f"cannot list '{path}'") from error

    def make_dir(self, body: Body) -> Answer:
        user = self._users.find(body.get("user"))
        path = self.locate(body["path"], user)
        try:
            status = os.stat(path)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise InternalError(f"cannot make '{path}': {error.strerror}") from error
        else:
            if stat.S_ISDIR(status.st_mode):
                raise AlreadyExistsError(f"directory already exists: {path}")
            raise InvalidArgumentError(f"path already exists but it is not a directory: {path}")
        self._make_dirs(path, user)
        return {"entry": entries.read_entry(path, self._users)}, ()

    def move(self, body: Body) -> Answer:
        user = self._users.find(body.get("user"))
        source = self.locate(body["source"], user)
        destination = self.locate(body["destination"], user)
        try:
            os.lstat(source)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENOTDIR):
                raise NotFoundError(f"source file not found: {source}") from error
            raise paths.failure(error, f"cannot look at '{source}'") from error
        self._make_dirs(os.path.dirname(destination), user)
        try:
            tree_moves.rename(source, destination, self._budget, layered=not self.is_confined)
        except FileNotFoundError as error:
            raise NotFoundError(f"source file not found: {source}") from error
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise paths.failure(error, f"cannot move to '{destination}'") from error
            if error.errno == errno.EINVAL:
                text = f"cannot move '{source}' into itself: {destination}"
                raise InvalidArgumentError(text) from error
            text = f"cannot move '{source}' to '{destination}': {error.strerror}"
            raise InternalError(text) from error
        return {"entry": entries.read_entry(destination, self._users)}, ()

    def remove(self, body: Body) -> Answer:
        path = self.locate(body["path"], self._users.find(body.get("user")))
        try:
            removal.remove(path, self._budget.step)
        except OSError as error:
            raise InternalError(f"cannot remove '{path}': {error.strerror}") from error
        return {}, ()

    def open(self, body: Body) -> Answer:
        path = self.locate(body["path"], self._users.find(body.get("user")))
        fd, status = self._open_regular(path, f"path '{path}' is a directory")
        # The files of procfs and sysfs have no size that says how much there is to read.
        streamed = status.st_size == 0 and _is_magic(path)
        return {
            "path": path,
            "name": os.path.basename(path),
            "size": status.st_size,
            "mtime_ns": status.st_mtime_ns,
            "mode": stat.S_IMODE(status.st_mode),
            "streamed": streamed,
        }, [fd]

    def create(self, body: Body) -> Answer:
        content, size = body.get("content"), body.get("size")
        if content is not None:
            self._budget.demand(size or 0, _LONG_COPY)
        user = self._users.find(body.get("user"))
        path = self.locate(body["path"], user)
        metadata: dict[str, str] = body.get("metadata") or {}
        if path == "/" or body["path"].endswith("/"):
            raise InvalidArgumentError(f"path is a directory: {path}")
        self._make_dirs(os.path.dirname(path), user)
        named: Body = {"path": path, "name": os.path.basename(path)}
        fd, status = self._open_for_writing(path)
        try:
            if body.get("draft") and status.st_size:
                draft = drafts.open_draft(os.path.realpath(path), self._root)
                if draft is not None:
                    os.close(fd)
                    return {**named, "is_draft": True}, [draft]
            os.set_blocking(fd, True)
            # Before the content: watchers are promised to hear of the owner first.
            self._users.own(fd, user)
            if size is not None:
                drafts.keep_room(fd, size)
            stored = _replace_metadata(fd, metadata)
            if size is None and status.st_size:
                os.ftruncate(fd, 0)
            if content is not None:
                contents.replace(content, fd, size or 0)
        except BaseException as error:
            os.close(fd)
            if isinstance(error, OSError):
                raise paths.failure(error, f"cannot write '{path}'") from error
            raise
        answer = {**named, "metadata": stored or None}
        if content is None:
            return answer, [fd]
        os.close(fd)
        return answer, ()

    def compose(self, body: Body) -> Answer:
        user = self._users.find(body.get("user"))
        given, destination = body["sources"], body["destination"]
        if not given or not destination:
            raise InvalidArgumentError("source_paths and destination must not be empty")
        target = self.locate(destination, user)
        sources = [self.locate(path, user) for path in given]
        for path, as_given in zip(sources, given, strict=True):
            self._check_source(path, as_given, target)
        self._budget.demand(sum(os.stat(path).st_size for path in sources), _LONG_COPY)
        self._make_dirs(os.path.dirname(target), user)
        if os.path.isdir(target):
            raise InvalidArgumentError(f"path is a directory: {target}")
        try:
            self._concatenate(sources, target, user)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise paths.failure(error, f"cannot write '{target}'") from error
            raise InternalError(f"cannot write '{target}': {error.strerror}") from error
        for path in sources:
            with contextlib.suppress(OSError):  # the result is complete without it
                os.unlink(path)
        return {"path": target, "name": os.path.basename(target)}, ()

    def locate(self, path: str, user: User) -> str:
        """The absolute path that a request means. Raises ``InvalidArgumentError``."""
        located = paths.resolve(path, user, self.default_cwd)
        if not self._root or f"{located}/".startswith(f"{self._root}/"):
            return located
        if f"{located}/".startswith(_PRIVATE_TREES) or self._has_more_of(located):
            return self._root + located
        return located

    def _has_more_of(self, path: str) -> bool:
        """Whether the sandbox's directory has more of the folders above a path than the machine.

        So what a template puts at /app is found there. What neither has is the sandbox's, if it is
        not below a directory of the machine.
        """
        parts = path.split("/")[1:]
        own, above = 0, 0
        while own < len(parts) and os.path.lexists(f"{self._root}/{'/'.join(parts[: own + 1])}"):
            own += 1
        while above < len(parts) and os.path.lexists("/" + "/".join(parts[: above + 1])):
            above += 1
        return own > above or above == 0

    def _check_source(self, path: str, as_given: str, target: str) -> None:
        if path == target:
            raise InvalidArgumentError(f"source and destination are the same file: {as_given}")
        try:
            status = os.stat(path)
            same = os.path.exists(target) and os.path.samestat(status, os.stat(target))
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENOTDIR):
                raise NotFoundError(f"source file not found: {as_given}") from error
            raise paths.failure(error, f"cannot look at '{as_given}'") from error
        if not stat.S_ISREG(status.st_mode):
            raise InvalidArgumentError(f"source is not a regular file: {as_given}")
        if same:
            raise InvalidArgumentError(f"source and destination are the same file: {as_given}")

    def _concatenate(self, sources: list[str], target: str, user: User) -> None:
        directory, name = os.path.split(target)
        temporary = os.path.join(directory, f".{name[:200]}.{os.urandom(6).hex()}")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        output = os.open(temporary, flags, 0o666)
        try:
            for path in sources:
                fd, status = self._open_regular(path, f"source is not a regular file: {path}")
                try:
                    contents.append(fd, output, status.st_size)
                finally:
                    os.close(fd)
            self._users.own(output, user)
            os.rename(temporary, target)
        except BaseException:
            with contextlib.suppress(OSError):  # the first error is the one to tell
                os.unlink(temporary)
            raise
        finally:
            os.close(output)

    def _open_regular(self, path: str, directory_text: str) -> tuple[int, os.stat_result]:
        try:
            status = os.stat(path)
            # A look before opening: opening a device can already have an effect.
            _demand_regular(status, path, directory_text)
            _refuse_own_links(path)
            fd = os.open(path, os.O_RDONLY | _SAFE)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENOTDIR):
                raise NotFoundError(f"path '{path}' does not exist") from error
            if error.errno in (errno.ELOOP, errno.ENXIO):
                raise InvalidArgumentError(f"path '{path}' cannot be opened") from error
            raise paths.failure(error, f"cannot open '{path}'") from error
        try:
            status = os.fstat(fd)
            _demand_regular(status, path, directory_text)
            own_entries.refuse(fd, path)
            os.set_blocking(fd, True)
        except BaseException:
            os.close(fd)
            raise
        return fd, status

    def _open_for_writing(self, path: str) -> tuple[int, os.stat_result]:
        fd = self._open_to_write(path)
        try:
            own_entries.refuse(fd, path)
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode):
                raise InvalidArgumentError(f"path is not a regular file: {path}")
        except BaseException:
            os.close(fd)
            raise
        return fd, status

    def _open_to_write(self, path: str) -> int:
        try:
            with contextlib.suppress(FileNotFoundError):
                _refuse_own_links(path)
                mode = os.stat(path).st_mode
                if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
                    raise InvalidArgumentError(f"path is not a regular file: {path}")
            return os.open(path, os.O_WRONLY | os.O_CREAT | _SAFE, 0o666)
        except OSError as error:
            if error.errno == errno.EISDIR:
                raise InvalidArgumentError(f"path is a directory: {path}") from error
            if error.errno in (errno.ELOOP, errno.ENXIO, errno.ETXTBSY):
                text = f"path '{path}' cannot be written: {error.strerror}"
                raise InvalidArgumentError(text) from error
            raise paths.failure(error, f"cannot write '{path}'") from error

    def _make_dirs(self, path: str, user: User) -> None:
        """Make a directory and its missing parents, 0755 and owned by the user."""
        missing: list[str] = []
        while True:
            try:
                status = os.stat(path)
            except FileNotFoundError:
                missing.append(path)
                path = os.path.dirname(path)
                continue
            except OSError as error:
                raise InternalError(f"cannot make '{path}': {error.strerror}") from error
            if not stat.S_ISDIR(status.st_mode):
                raise InternalError(f"cannot make a directory: '{path}' is not a directory")
            break
        for directory in reversed(missing):
            try:
                self._make_one(directory, user)
            except OSError as error:
                if error.errno in (errno.ENOSPC, errno.EDQUOT):
                    raise paths.failure(error, f"cannot make '{directory}'") from error
                raise InternalError(f"cannot make '{directory}': {error.strerror}") from error

    def _make_one(self, directory: str, user: User) -> None:
        try:
            os.mkdir(directory, 0o755)
        except FileExistsError:
            if not os.path.isdir(directory):
                raise
            return  # somebody else was faster
        fd = os.open(directory, _DIRECTORY | os.O_NOFOLLOW)
        try:
            self._users.own(fd, user)
        finally:
            os.close(fd)


def _demand_regular(status: os.stat_result, path: str, directory_text: str) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise InvalidArgumentError(directory_text)
    if not stat.S_ISREG(status.st_mode):
        raise InvalidArgumentError(f"path '{path}' is not a regular file")


def _refuse_own_links(path: str) -> None:
    """Refuse a link to what procfs has about the agent. Raises ``PermissionDeniedError``."""
    if stat.S_ISLNK(os.lstat(path).st_mode) and own_entries.leads_to_own(path):
        raise own_entries.refusal(path)


def _is_magic(path: str) -> bool:
    """Whether a file is one of procfs or sysfs, which are devices of their own."""
    device = os.stat(path).st_dev
    for root in _MAGIC_DEVICES:
        with contextlib.suppress(OSError):  # not every sandbox has both
            if os.stat(root).st_dev == device and device != os.stat("/").st_dev:
                return True
    return False


def _replace_metadata(fd: int, metadata: dict[str, str]) -> dict[str, str]:
    """Make ``metadata`` all there is; what was stored, which is nothing without xattrs."""
    try:
        for name in os.listxattr(fd):
            if name.startswith(entries.METADATA_PREFIX):
                os.removexattr(fd, name)
        for key, value in metadata.items():
            os.setxattr(fd, entries.METADATA_PREFIX + key, value.encode())
    except OSError as error:
        if error.errno in _NO_XATTR:
            return entries.read_metadata(fd)
        raise
    return metadata
