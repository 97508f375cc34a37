"""Run by a test: a program whose filter asks a keeper, with nothing else around it.

Argument: a directory of which ``inside`` may be changed. The program tries everything on files in
``outside``, too, that it owns and may read; prints one JSON object of what each try gave.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import os
import signal
import socket
import struct
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parents[3]))

from sbx_jupyter.agent.processes.supervision import Supervision
from sbx_jupyter.isolation.confined import descendants, keeper, shared_ids
from sbx_jupyter.isolation.kernel import call_numbers, syscalls

if TYPE_CHECKING:
    from collections.abc import Callable

_IOCTL_SET_FLAGS = 0x40086602
_IOCTL_GET_FLAGS = 0x80086601

libc = ctypes.CDLL(None, use_errno=True)


def outcome(call: Callable[[], object]) -> str:
    """``ok`` or the name of the error."""
    try:
        call()
    except OSError as error:
        return errno.errorcode[error.errno or 0]
    return "ok"


def raw(name: str, *values: int | bytes | None) -> int:
    """A call by its number in the table of the filter."""
    number = call_numbers.NUMBERS[call_numbers.HERE].get(name)
    if number is None:
        raise OSError(errno.ENOSYS, name)
    made = [ctypes.c_long(value) if isinstance(value, int) else value for value in values]
    if libc.syscall(ctypes.c_long(number), *made) < 0:
        raise OSError(ctypes.get_errno(), name)
    return 0


def try_outside(outside: Path) -> dict[str, str]:
    """Everything that its owner may do to a file, by a descriptor that may only read."""
    file = outside / "file"
    fd = os.open(file, os.O_RDONLY)
    flags = bytearray(8)
    return {
        "read": outcome(lambda: os.read(fd, 1)),
        "chmod": outcome(lambda: file.chmod(0)),
        "fchmod": outcome(lambda: os.fchmod(fd, 0)),
        "utime": outcome(lambda: os.utime(file, (0, 0))),
        "futimens": outcome(lambda: os.utime(fd, (0, 0))),
        "fsetxattr": outcome(lambda: os.setxattr(fd, "user.x", b"1")),
        "fremovexattr": outcome(lambda: os.removexattr(fd, "user.there")),
        "setxattr": outcome(lambda: os.setxattr(file, "user.x", b"1")),
        "get_flags": outcome(lambda: fcntl.ioctl(fd, _IOCTL_GET_FLAGS, flags)),
        "set_flags": outcome(lambda: fcntl.ioctl(fd, _IOCTL_SET_FLAGS, struct.pack("q", 0x40))),
        "lease": outcome(lambda: fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)),
        "pipe": outcome(lambda: os.fchmod(os.pipe()[0], 0)),
    }


def try_inside(inside: Path) -> dict[str, object]:
    """What programs do to their own files must go on working."""
    os.chdir(inside)
    file, link = inside / "file", inside / "link"
    file.write_text("x")
    link.symlink_to(file)
    folder = inside / "folder"
    folder.mkdir()
    (folder / "again").symlink_to("../link")
    deleted = os.open("gone", os.O_RDWR | os.O_CREAT)
    os.unlink("gone")
    where = os.open("folder", os.O_PATH)
    fd = os.open(file, os.O_RDONLY)
    seen: dict[str, object] = {
        "chmod": outcome(lambda: file.chmod(0o751)),
        "mode": oct(file.stat().st_mode),
        "through_links": outcome(lambda: (folder / "again").chmod(0o640)),
        "mode_through_links": oct(file.stat().st_mode),
        "dots": outcome(lambda: os.chmod("folder/../file", 0o600)),
        "slashes": outcome(lambda: os.chmod(f"//{inside}//./folder/..//file", 0o600)),
        "relative": outcome(lambda: os.chmod("../file", 0o611, dir_fd=where)),
        "folder": outcome(lambda: os.chmod(".", 0o755)),
        "missing": outcome(lambda: os.chmod("missing", 0)),
        "not_a_folder": outcome(lambda: os.chmod("file/x", 0)),
        "deleted": outcome(lambda: os.fchmod(deleted, 0o700)),
        "deleted_mode": oct(os.fstat(deleted).st_mode),
        "no_descriptor": outcome(lambda: os.fchmod(999, 0)),
        "bad_flags": outcome(lambda: raw("fchmodat2", -100, b"file", 0o600, 0x8000)),
        "link_mode": outcome(lambda: raw("fchmodat2", -100, b"link", 0o600, 0x100)),
        "empty": outcome(lambda: raw("fchmodat2", where, b"", 0o711, 0x1000)),
        "empty_mode": oct(folder.stat().st_mode),
        "utime": outcome(lambda: os.utime(file, ns=(1_000_000_007, 2_000_000_009))),
        "times": [file.stat().st_atime_ns, file.stat().st_mtime_ns],
        "link_times": outcome(lambda: os.utime(link, ns=(5, 6), follow_symlinks=False)),
        "times_of_link": [link.lstat().st_mtime_ns, file.stat().st_mtime_ns],
        "now": outcome(lambda: os.utime(fd)),
        "omitted": outcome(
            lambda: raw("utimensat", -100, b"file", struct.pack("=4q", 0, (1 << 30) - 2, 7, 0), 0)
        ),
        "time_omitted": file.stat().st_mtime,
        "fsetxattr": outcome(lambda: os.setxattr(fd, "user.mine", b"value")),
        "value": os.getxattr(fd, "user.mine").decode(),
        "fremovexattr": outcome(lambda: os.removexattr(fd, "user.mine")),
        "attributes": os.listxattr(fd),
    }
    if call_numbers.HERE == call_numbers.X86_64:
        raw("utimes", b"file", struct.pack("=4q", 3, 4, 5, 6))
        seen["utimes"] = [file.stat().st_atime_ns, file.stat().st_mtime_ns]
        raw("utime", b"file", struct.pack("=2q", 8, 9))
        seen["utime_old"] = [file.stat().st_atime, file.stat().st_mtime]
        seen["too_many"] = outcome(
            lambda: raw("utimes", b"file", struct.pack("=4q", 3, 1_000_000, 5, 6))
        )
    done = subprocess.run(
        "cp -a folder copy && tar cf - folder | (mkdir t && cd t && tar xpf -) && touch -d @77 new "
        "&& install -m 750 file installed && stat -c %a%Y new installed copy | head -c 80",
        shell=True, capture_output=True, text=True, check=False,
    )  # fmt: skip
    seen["programs"] = done.stdout + done.stderr
    return seen


def program(top: Path, supervision: Supervision, report: int) -> None:
    """The child: under supervision, and in nothing else."""
    os.dup2(report, 1)
    supervision.keep_only_keeper_socket()
    syscalls.prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)
    supervision.enter()
    told = {"outside": try_outside(top / "outside"), "inside": try_inside(top / "inside")}
    os.write(1, json.dumps(told).encode())


def main(top: Path) -> None:
    """Fork a program, be its keeper, and end with it."""
    descendants.prepare_keeper()
    outside, inside = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    filter_program = shared_ids.build()
    pid = os.fork()
    if pid == 0:
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        try:
            program(top, Supervision(filter_program, inside.fileno()), 1)
        finally:
            os._exit(0)
    inside.close()
    try:
        keeper.Keeper(pid, outside.detach(), str(top / "inside"), 0).serve()
    finally:
        descendants.end_all()


if __name__ == "__main__":
    signal.alarm(50)
    main(Path(sys.argv[1]))
