"""What code inside a sandbox cannot do, tried as its root."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sbx_jupyter.isolation.fence import Fence

from .inside import sandbox

if TYPE_CHECKING:
    from sbx_jupyter.isolation.tiers import IsolationReport

    from .inside import Inside

NAMESPACES = ("user", "mnt", "pid", "ipc", "uts", "net", "cgroup")


@pytest.mark.parametrize("kind", NAMESPACES)
async def test_the_sandbox_has_a_namespace_of_its_own(box: Inside, kind: str) -> None:
    theirs = (await box.run(f"readlink /proc/self/ns/{kind}")).out.strip()
    assert theirs.startswith(f"{kind}:")
    assert theirs != os.readlink(f"/proc/self/ns/{kind}")


async def test_only_processes_of_the_sandbox_are_seen(box: Inside) -> None:
    ran = await box.run(
        "ls /proc | grep -c '^[0-9]*$'; ps -e -o pid= | sort -n | head -1", user="root"
    )
    count, first = ran.out.split()
    assert int(count) < 12
    assert first == "1"


async def test_the_network_has_only_loopback(box: Inside) -> None:
    ran = await box.run("cat /proc/net/dev | tail -n +3 | cut -d: -f1 | tr -d ' '")
    assert ran.out == "lo\n"
    ran = await box.run("python -c \"import socket; socket.create_connection(('1.1.1.1', 80), 2)\"")
    assert "unreachable" in ran.err


@pytest.mark.parametrize(
    ("what", "call"),
    [
        ("mount", "libc.mount(b'x', b'/mnt', b'tmpfs', 0, None)"),
        ("umount", "libc.umount2(b'/proc/keys', 2)"),
        ("unshare a user namespace", "libc.unshare(0x10000000)"),
        ("unshare a mount namespace", "libc.unshare(0x20000)"),
        ("clone into a user namespace", "libc.syscall(56, 0x10000000 | 17, 0, 0, 0, 0)"),
        ("setns", "libc.setns(os.open('/proc/self/ns/net', 0), 0)"),
        ("bpf", "libc.syscall(321, 0, 0, 0)"),
        ("perf_event_open", "libc.syscall(298, 0, 0, -1, -1, 0)"),
        ("userfaultfd", "libc.syscall(323, 0)"),
        ("add_key", "libc.syscall(248, b'user', b'a', b'b', 1, -3)"),
        ("keyctl", "libc.syscall(250, 0, -3, 0)"),
        ("io_uring_setup", "libc.syscall(425, 8, None)"),
        ("open_by_handle_at", "libc.syscall(304, 0, None, 0)"),
        ("init_module", "libc.syscall(175, None, 0, b'')"),
        ("kexec_load", "libc.syscall(246, 0, 0, None, 0)"),
        ("reboot", "libc.syscall(169, 0xfee1dead, 672274793, 0, None)"),
        ("swapon", "libc.syscall(167, b'/tmp/x', 0)"),
        ("clock_settime", "libc.syscall(227, 0, b'0' * 16)"),
    ],
)
async def test_a_dangerous_system_call_is_refused(box: Inside, what: str, call: str) -> None:
    if os.uname().machine != "x86_64":
        pytest.skip("the numbers in this table are those of x86-64")
    code = (
        "import ctypes, os; libc = ctypes.CDLL(None, use_errno=True); "
        f"r = {call}; print(r, ctypes.get_errno())"
    )
    ran = await box.run(f'python -c "{code}"', user="root")
    assert ran.out == "-1 1\n", (what, ran)


async def test_calls_of_a_foreign_architecture_kill_the_caller(box: Inside) -> None:
    if os.uname().machine != "x86_64":
        pytest.skip("int 0x80 is x86-64 only")
    code = (
        "import ctypes, mmap; m = mmap.mmap(-1, 4096, prot=7); "
        "m.write(bytes.fromhex('b814000000cd80c3')); "
        "ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(m)))()"
    )
    ran = await box.run(f'python -c "{code}"; echo status $?', user="root")
    assert ran.out == "status 159\n"  # SIGSYS


async def test_x32_calls_do_not_exist(box: Inside) -> None:
    if os.uname().machine != "x86_64":
        pytest.skip("x32 is x86-64 only")
    code = (
        "import ctypes; libc = ctypes.CDLL(None, use_errno=True); "
        "print(libc.syscall(0x40000000 + 39), ctypes.get_errno())"
    )
    assert (await box.run(f'python -c "{code}"', user="root")).out == "-1 38\n"


async def test_capabilities_are_cut_for_good(box: Inside) -> None:
    ran = await box.run("grep CapBnd /proc/self/status", user="root")
    bounding = int(ran.out.split()[1], 16)
    for forbidden in (12, 13, 16, 17, 19, 21, 22, 24, 25, 27, 38, 39, 40):
        assert not bounding >> forbidden & 1, forbidden


@pytest.mark.parametrize("file", ["environ", "maps", "mem", "fd/0", "root", "cwd", "auxv"])
async def test_the_agent_keeps_its_memory_and_descriptors_to_itself(box: Inside, file: str) -> None:
    ran = await box.run(f"ls /proc/1/{file}/ || head -c 1 /proc/1/{file}", user="root")
    assert "denied" in ran.err
    assert ran.out == ""


async def test_the_agent_cannot_be_killed_from_inside(box: Inside) -> None:
    await box.run("kill -9 1; kill -9 -1", user="root")
    assert (await box.run("echo alive")).out == "alive\n"


@pytest.mark.parametrize(
    "path", ["/proc/sysrq-trigger", "/proc/sys/kernel/core_pattern", "/proc/sys/vm/drop_caches",
             "/proc/sys/kernel/pid_max", "/proc/sys/user/max_user_namespaces"],
)  # fmt: skip
async def test_the_kernel_is_not_tunable_from_inside(box: Inside, path: str) -> None:
    # What is masked is /dev/null, into which everybody may write.
    ran = await box.run(f"test $(stat -c %t:%T {path}) != 1:3 && echo 1 > {path}", user="root")
    assert ran.status != 0


async def test_keys_of_the_machine_are_masked(box: Inside) -> None:
    assert (await box.run("cat /proc/keys /proc/key-users", user="root")).out == ""


async def test_devices_cannot_be_made_or_changed(box: Inside) -> None:
    assert (await box.run("mknod /tmp/d b 8 0", user="root")).status != 0
    assert (await box.run("touch /dev/new", user="root")).status != 0
    assert (await box.run("head -c 4 /dev/zero | wc -c; echo x > /dev/null")).out == "4\n"
    assert (await box.run("ls /dev/kmsg /dev/mem /dev/vda", user="root")).out == ""


async def test_sys_is_empty(box: Inside) -> None:
    assert (await box.run("ls -A /sys", user="root")).out == ""


async def test_a_debugger_works_on_a_process_of_the_sandbox(box: Inside) -> None:
    code = (
        "import ctypes, os, signal; libc = ctypes.CDLL(None, use_errno=True)\n"
        "pid = os.fork()\n"
        "if pid == 0:\n    signal.pause()\n"
        "r = libc.ptrace(16, pid, 0, 0); os.waitpid(pid, 0); libc.ptrace(17, pid, 0, 0)\n"
        "os.kill(pid, 9); print(r)"
    )
    assert (await box.run(f"python -c '{code}'")).out == "0\n"


async def test_no_environment_or_descriptor_of_the_engine_reaches_a_process(box: Inside) -> None:
    ran = await box.run("ls /proc/self/fd | wc -l; env", user="root")
    assert int(ran.out.split()[0]) <= 4  # 0, 1, 2 and that of ls
    for name in os.environ:
        if name not in ("PATH", "HOME", "USER", "SHELL", "PWD", "SHLVL", "_", "LOGNAME", "LANG"):
            assert f"\n{name}=" not in ran.out


async def test_the_first_process_outside_shows_no_secret(box: Inside) -> None:
    proc = Path(f"/proc/{box.cage.pid}")
    if os.getuid() == 0:
        # The C locale coercion of Python may set LC_CTYPE; nothing else.
        environment = (proc / "environ").read_bytes().split(b"\0")
        assert {e.split(b"=")[0] for e in environment} <= {b"", b"LC_CTYPE"}
    assert b"token" not in (proc / "cmdline").read_bytes()


async def test_without_spare_ids_the_root_inside_still_reaches_nothing_of_the_machine(
    report: IsolationReport, data_dir: Path
) -> None:
    if report.users != "root-mapped":
        pytest.skip("needs root")
    fence = Fence(data_dir, replace(report, id_base=0), report.tier)
    await fence.start()
    try:
        async with sandbox(fence, data_dir, "sharedids") as inside:
            assert (await inside.run("id -u; sudo id -u")).out == "1000\n0\n"
            ran = await inside.run("cat /proc/kmsg /proc/timer_list /proc/slabinfo", user="root")
            assert ran.out == ""
            for path in ("/proc/sysrq-trigger", "/proc/sys/kernel/core_pattern"):
                await inside.run(f"echo h > {path}", user="root")
            assert (await inside.run("mount -t tmpfs x /mnt", user="root")).status != 0
            assert (await inside.run("mknod /srv/d b 8 0", user="root")).status != 0
    finally:
        await fence.stop()


async def test_a_program_that_asks_to_be_traced_ends_nothing(box: Inside) -> None:
    traced = (
        "import ctypes, os, signal; ctypes.CDLL(None).ptrace(0, 0, 0, 0);"
        "os.kill(os.getpid(), signal.{})"
    )
    pid = await box.start(f"exec python -c '{traced.format('SIGUSR1')}'")
    stopped = f"until grep -q '^State:.t' /proc/{pid}/status; do sleep 0.01; done; kill -9 {pid}"
    assert (await box.run(f"{stopped}; echo alive")).out == "alive\n"
    for _ in range(3):
        ran = await box.run(f"python -c '{traced.format('SIGKILL')}'; echo $?")
        assert ran.out == "137\n"
