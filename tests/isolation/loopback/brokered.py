"""Runs a program behind the filter and the keeper of the Landlock tier, and behind nothing else.

Arguments: the directory that it may change, the version of Landlock, and the program, where the
word ``keeper`` stands for the process id of its keeper. Standard library only.
"""

from __future__ import annotations

import os
import resource
import signal
import socket
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))

from sbx_jupyter.agent.processes.supervision import Supervision
from sbx_jupyter.isolation.confined import descendants, keeper, shared_ids
from sbx_jupyter.isolation.kernel import syscalls


def main(root: str, abi: int, command: list[str]) -> int:
    """Be the keeper of a program until it ends; its exit status."""
    # A keeper holds fewer sockets where it may have few open files.
    most = 20_000 if os.geteuid() == 0 else resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    descendants.prepare_keeper()
    outside, inside = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    program = shared_ids.build(loopback=True, abi=abi)
    own = os.getpid()
    told, tell = os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if pid == 0:
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        child = os.fork()
        if child:
            os.write(tell, b"%d" % os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
            os._exit(0)
        syscalls.prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)
        supervision = Supervision(program, inside.fileno())
        supervision.keep_only_keeper_socket()
        supervision.enter()
        os.execvp(command[0], [str(own) if word == "keeper" else word for word in command])
    inside.close()
    os.close(tell)
    served = keeper.Keeper(pid, outside.detach(), root, 0)
    try:
        served.serve()
    finally:
        served.close()
    return int(os.read(told, 9) or b"1")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), sys.argv[3:]))
