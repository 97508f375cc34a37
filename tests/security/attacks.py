"""The attacks that are scripts: what each tries inside a sandbox, and how it must be refused.

A script is Python with the names of ``inside.py`` and a dictionary ``C`` of what the test knows
outside (``siege.py``). It calls ``breach`` when it got what it wanted. Otherwise it must end with
an exception, or in ``held``, whose text ``refusal`` matches: a script that fails for another reason
proves nothing. Standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass

NAMESPACES = ("namespaces-root", "namespaces-user", "namespaces-subordinate")
LANDLOCK = ("landlock",)
TIERS = NAMESPACES + LANDLOCK

HIDDEN = r"FileNotFoundError|PermissionError|NotADirectoryError"
DENIED = r"PermissionError|Errno 1\]|Errno 13\]"
GONE = r"ProcessLookupError|PermissionError"
GONE_OR_ABSENT = rf"{GONE}|Function not implemented"
CLOSED = (
    r"ConnectionRefusedError|Network is unreachable|Address family not supported"
    r"|Cannot assign requested address|No route to host|PermissionError|FileNotFoundError"
    r"|Protocol not supported"
)
NO_SOCKET = r"Address family not supported|Protocol not supported|Operation not supported"
NOT_DIALLED = r"40[0-9]|50[0-9]|closed|socks [1-9]|Address family not supported"


@dataclass(frozen=True)
class Attack:
    """One attempt; ``tiers`` are those in which it makes sense and must fail."""

    name: str
    group: str
    script: str
    refusal: str
    tiers: tuple[str, ...] = TIERS
    user: str = "root"


def _read(
    name: str,
    script: str,
    refusal: str = HIDDEN,
    tiers: tuple[str, ...] = TIERS,
    user: str = "root",
) -> Attack:
    return Attack(name, "read the host", script, refusal, tiers, user)


def _process(
    name: str,
    script: str,
    refusal: str = GONE,
    tiers: tuple[str, ...] = TIERS,
    user: str = "root",
) -> Attack:
    return Attack(name, "reach other processes", script, refusal, tiers, user)


def _network(
    name: str,
    script: str,
    refusal: str = CLOSED,
    tiers: tuple[str, ...] = TIERS,
    user: str = "root",
) -> Attack:
    return Attack(name, "reach the network of the host", script, refusal, tiers, user)


def _escape(
    name: str,
    script: str,
    refusal: str = DENIED,
    tiers: tuple[str, ...] = TIERS,
    user: str = "root",
) -> Attack:
    return Attack(name, "escape", script, refusal, tiers, user)


READ = [
    _read("read a secret of the host by its path", "breach(read(C['secret']))"),
    _read("read a world-readable file of the host", "breach(read(C['public']))"),
    _read("read a secret through /proc/1/root", "breach(read('/proc/1/root' + C['secret']))"),
    _read(
        "read a secret through the root of its owner's process",
        "breach(read(f\"/proc/{C['victim']}/root{C['secret']}\"))",
    ),
    _read(
        "read a secret through the working directory of its owner's process",
        "breach(read(f\"/proc/{C['victim']}/cwd/secret\"))",
    ),
    _read(
        "read an open file of a process outside",
        "breach(read(f\"/proc/{C['victim']}/fd/{C['victim_fd']}\"))",
    ),
    _read(
        "read the environment of a process outside",
        "breach(read(f\"/proc/{C['victim']}/environ\"))",
    ),
    _read(
        "find the secret below any process",
        "for p in pids():\n"
        "    for way in ('root' + C['secret'], 'cwd/secret'):\n"
        "        if C['mark'] in attempt(read, f'/proc/{p}/{way}'): breach(p + way)\n"
        "held('nowhere')",
        "nowhere",
    ),
    _read(
        "find the token in any environment",
        "for p in pids():\n"
        "    if C['token'] in attempt(read, f'/proc/{p}/environ'): breach(p)\n"
        "held('nowhere')",
        "nowhere",
    ),
    _read(
        "use an inherited descriptor",
        "breach(str(INHERITED)) if INHERITED else held('none')",
        "none",
    ),
    _read(
        "open devices of the machine",
        "for name in ('mem', 'kmsg', 'port', 'vda', 'sda', 'kvm', 'net/tun', 'fuse', 'loop0'):\n"
        "    if attempt(os.open, '/dev/' + name, os.O_RDONLY).isdigit(): breach(name)\n"
        "held('none')",
        "none",
    ),
    _read(
        "read the kernel's memory and addresses",
        "for name in ('kcore', 'kallsyms', 'vmallocinfo', 'slabinfo', 'timer_list', 'kmsg'):\n"
        "    fd = attempt(os.open, '/proc/' + name, os.O_RDONLY | os.O_NONBLOCK)\n"
        "    text = attempt(os.read, int(fd), 4096) if fd.isdigit() else ''\n"
        "    if text.strip(\"b''\") and 'Error' not in text and "
        'not text.startswith("b\'0000000000000000"): breach(name + text[:80])\n'
        "held('none')",
        "none",
    ),
    _read(
        "read the kernel's log",
        "sysc(103, 3, ctypes.create_string_buffer(4096), 4096); breach()",
        DENIED,
    ),
    _read("read the keys of a session", "sysc(250, 11, -3, 0, 0); breach()", DENIED),
    _read(
        "list the keys of the machine",
        "text = attempt(read, '/proc/keys')\n"
        "breach(text) if text and 'Error' not in text else held('none')",
        "none",
    ),
    _read(
        "read the passwords of the host",
        "words = {line.split(':')[1] for line in read('/etc/shadow').splitlines()}\n"
        "held('none') if words == {'*'} else breach(str(words))",
        rf"none|{HIDDEN}",
    ),
    _read("read the engine's database", "breach(read(C['data'] + '/engine.db'))"),
    _read("list the sandboxes of the engine", "breach(str(os.listdir(C['data'] + '/sandboxes')))"),
    _read("read a file of another sandbox by its path", "breach(read(C['sibling_file']))"),
    _read(
        "see another sandbox above the home directory",
        "path = os.path.expanduser('~')\n"
        "while path != '/':\n"
        "    path = os.path.dirname(path)\n"
        "    if C['sibling'] in attempt(os.listdir, path): breach(path)\n"
        "held('nothing')",
        "nothing",
    ),
    _read(
        "see what the hardware is through /sys",
        "text = attempt(os.listdir, '/sys/class/net')\n"
        "breach(text) if 'Error' not in text else held(text)",
        HIDDEN,
    ),
    _read(
        "watch a directory of the host",
        "fd = libc.inotify_init1(0)\n"
        "r = libc.inotify_add_watch(fd, C['home'].encode(), 0x100)\n"
        "breach() if r >= 0 else held(error())",
        HIDDEN,
    ),
    _read(
        "read an attribute of a file of the host",
        "breach(os.getxattr(C['public'], 'user.mark'))",
        r"Errno 2\]|Errno 95\]|Errno 13\]",
    ),
    _read(
        "write an attribute to a file of the host",
        "os.setxattr(C['public'], 'user.planted', b'x'); breach()",
        r"Errno 2\]|Errno 95\]|Errno 13\]",
    ),
    _read("write to a file of the host", "open(C['public'], 'a').write('x'); breach()"),
    _read("cut a file of the host", "os.truncate(C['public'], 0); breach()"),
    _read("remove a file of the host", "os.unlink(C['public']); breach()"),
    _read(
        "link a file of the host into the sandbox",
        "os.link(C['public'], os.path.expanduser('~/stolen')); breach()",
        HIDDEN + r"|Errno 18\]",
    ),
    _read(
        "replace a file of the host",
        "open(os.path.expanduser('~/mine'), 'w').close()\n"
        "os.rename(os.path.expanduser('~/mine'), C['public']); breach()",
        HIDDEN + r"|Errno 18\]",
    ),
    _read(
        "change the mode of a file of the host",
        "os.chmod(C['public'], 0); breach()",
        HIDDEN,
    ),
    _read(
        "change the times of a file of the host",
        "os.utime(C['public'], (0, 0)); breach()",
        HIDDEN,
    ),
    _read(
        "find out that a file of the host is there",
        "os.stat(C['public']); breach()",
        HIDDEN,
        tiers=NAMESPACES,
    ),
]

PROCESSES = [
    _process("kill a process outside", "os.kill(C['victim'], 9); breach()"),
    _process("stop the engine", "os.kill(C['engine'], 0); breach()"),
    _process(
        "signal a process outside through a descriptor",
        "fd = os.pidfd_open(C['victim']); signal.pidfd_send_signal(fd, 9); breach()",
    ),
    _process("trace a process outside", "ptrace(16, C['victim']); breach()"),
    _process("trace the first process", "ptrace(0x4206, C['first']); breach()"),
    _process(
        "take a descriptor of a process outside",
        "sysc(438, os.pidfd_open(C['victim']), C['victim_fd'], 0); breach()",
        GONE_OR_ABSENT,
    ),
    _process(
        "take a descriptor of the first process",
        "sysc(438, os.pidfd_open(C['first']), 3, 0); breach()",
        GONE_OR_ABSENT,
    ),
    _process("read the memory of a process outside", "vm_read(C['victim']); breach()"),
    _process("read the memory of the first process", "vm_read(C['first']); breach()"),
    _process(
        "open the memory of the first process",
        "open(f\"/proc/{C['first']}/mem\", 'rb'); breach()",
        HIDDEN,
    ),
    _process(
        "write to a descriptor of the first process",
        "for n in range(64):\n"
        "    if attempt(os.open, f\"/proc/{C['first']}/fd/{n}\", os.O_WRONLY).isdigit():\n"
        "        breach(str(n))\n"
        "held('none')",
        "none",
    ),
    _process(
        "set the limits of a process outside",
        "resource.prlimit(C['victim'], resource.RLIMIT_NOFILE, (5, 5)); breach()",
    ),
    _process(
        "set the priority of a process outside",
        "os.setpriority(os.PRIO_PROCESS, C['victim'], 19); breach()",
    ),
    _process(
        "set the processors of a process outside",
        # Where sandboxes are bound to processors, the call succeeds and changes nothing.
        "before = os.sched_getaffinity(C['victim'])\n"
        "os.sched_setaffinity(C['victim'], {max(before)})\n"
        "after = os.sched_getaffinity(C['victim'])\n"
        "held('unchanged') if after == before and len(before) > 1 else breach(str(after))",
        GONE + "|Held unchanged",
    ),
    _process(
        "set the scheduler of a process outside",
        "os.sched_setscheduler(C['victim'], os.SCHED_IDLE, os.sched_param(0)); breach()",
    ),
    _process(
        "set the disk priority of a process outside", "sysc(251, 1, C['victim'], 3 << 13); breach()"
    ),
    _process(
        "read a shared memory segment of the host",
        "sysc(29, C['shm_key'], 0, 0); breach()",
        r"FileNotFoundError|Errno 1\]|Errno 38\]",
    ),
    _process(
        "list the processes of the host",
        "breach() if str(C['victim']) in attempt(os.listdir, '/proc') else held('none')",
        "none",
    ),
    _process(
        "compare kernel objects with the first process",
        "sysc(312, os.getpid(), C['first'], 0, 0, 0); breach()",
        DENIED,
    ),
]

_SPELLINGS = (
    "127.0.0.1", "localhost", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "0.0.0.0", "0",
    "[::1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[64:ff9b::7f00:1]", "LOCALHOST.",
    "ip6-localhost",
)  # fmt: skip

NETWORK = [
    _network("connect to the host's loopback", "connect('127.0.0.1', C['port']); breach()"),
    _network("connect to the host's loopback by IPv6", "connect('::1', C['port6']); breach()"),
    _network(
        "connect to the host's loopback by a mapped address",
        "connect('::ffff:127.0.0.1', C['port']); breach()",
    ),
    _network("connect to any address of the host", "connect('0.0.0.0', C['port']); breach()"),
    _network(
        "connect to the host's own addresses",
        "for a in C['addresses']:\n"
        "    if attempt(connect, a, C['port']) == 'True': breach(a)\n"
        "held('none')",
        "none",
    ),
    _network("connect to the engine", "connect('127.0.0.1', C['engine_port']); breach()"),
    _network(
        "connect to a port of another sandbox", "connect('127.0.0.1', C['sibling_port']); breach()"
    ),
    _network("connect to the metadata service", "connect('169.254.169.254', 80); breach()"),
    _network(
        "send a datagram to the host",
        "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', "
        "C['udp_port']))\nheld('sent into its own loopback')",
        "own loopback|" + NO_SOCKET,
    ),
    _network(
        "connect to an abstract socket of the host",
        "socket.socket(socket.AF_UNIX).connect('\\0' + C['abstract']); breach()",
    ),
    _network(
        "connect to a socket of the host by its path",
        "socket.socket(socket.AF_UNIX).connect(C['socket']); breach()",
    ),
    _network(
        "connect to the socket of its own agent",
        "socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET).connect(C['agent']); breach()",
    ),
    _network(
        "open a raw socket",
        "socket.socket(socket.AF_INET, socket.SOCK_RAW, 1); breach()",
        DENIED + "|" + NO_SOCKET,
    ),
    _network(
        "open a packet socket",
        "socket.socket(17, socket.SOCK_RAW, 3); breach()",
        DENIED + "|" + NO_SOCKET,
    ),
    _network(
        "speak to the hypervisor", "socket.socket(40, socket.SOCK_STREAM); breach()", NO_SOCKET
    ),
    _network(
        "use the kernel's ciphers", "socket.socket(38, socket.SOCK_SEQPACKET); breach()", NO_SOCKET
    ),
    _network("add an address by netlink", "add_address(); breach()", DENIED + "|" + NO_SOCKET),
    *(
        _network(
            f"CONNECT {name} through the proxy", f"proxy_connect('{name}', C['port'])", NOT_DIALLED
        )
        for name in _SPELLINGS
    ),
    _network(
        "CONNECT a name that resolves to loopback through the proxy",
        "proxy_connect(C['rebound'], C['port'])",
        NOT_DIALLED,
    ),
    _network(
        "CONNECT the host's own address through the proxy",
        "for a in C['addresses']: attempt(proxy_connect, a, C['port'])\n"
        "proxy_connect(C['host'], C['port'])",
        NOT_DIALLED,
    ),
    _network(
        "CONNECT the engine through the proxy",
        "proxy_connect('127.0.0.1', C['engine_port'])",
        NOT_DIALLED,
    ),
    _network(
        "CONNECT the metadata service through the proxy",
        "proxy_connect('169.254.169.254', 80)",
        NOT_DIALLED,
    ),
    _network(
        "CONNECT a private network through the proxy", "proxy_connect('10.0.0.1', 80)", NOT_DIALLED
    ),
    _network(
        "fetch from loopback through the proxy",
        "proxy_get(f\"http://127.0.0.1:{C['port']}/\", 'example.com')",
        NOT_DIALLED,
    ),
    _network("fetch a path of the proxy itself", "proxy_get('/', '127.0.0.1')", NOT_DIALLED),
    _network(
        "SOCKS to loopback", "socks(b'\\x01' + bytes([127, 0, 0, 1]), C['port'])", NOT_DIALLED
    ),
    _network(
        "SOCKS to a mapped address",
        "socks(b'\\x04' + bytes(10) + b'\\xff\\xff\\x7f\\0\\0\\1', C['port'])",
        NOT_DIALLED,
    ),
    _network(
        "SOCKS to a name that resolves to loopback",
        "socks(b'\\x03\\x09localhost', C['port'])",
        NOT_DIALLED,
    ),
    _network("SOCKS bind", "socks(b'\\x01' + bytes(4), 0, command=2)", NOT_DIALLED),
    _network("SOCKS by datagrams", "socks(b'\\x01' + bytes(4), 0, command=3)", NOT_DIALLED),
]

_CALLS = {
    "mount a file system": "sysc(165, b'x', b'/tmp', b'tmpfs', 0, None)",
    "mount the root again": "sysc(165, None, b'/', None, 32, None)",
    "bind another directory": "sysc(165, b'/', b'/tmp', None, 4096, None)",
    "unmount what hides": "sysc(166, b'/proc/keys', 2)",
    "open a file system context": "sysc(430, b'tmpfs', 0)",
    "clone a mount": "sysc(428, -100, b'/', 1)",
    "move a mount": "sysc(429, -100, b'/tmp', -100, b'/mnt', 0)",
    "change a mount": "sysc(442, -100, b'/', 0, bytes(32), 32)",
    "change the root": "sysc(155, b'/', b'/tmp')",
    "enter another namespace": "sysc(308, os.open('/', 0), 0)",
    "make a user namespace": "sysc(272, 0x10000000)",
    "make a mount namespace": "sysc(272, 0x20000)",
    "make a network namespace": "sysc(272, 0x40000000)",
    "clone into a user namespace": "sysc(56, 0x10000000 | 17, 0, 0, 0, 0)",
    "load a BPF program": "sysc(321, 0, bytes(64), 64)",
    "count with perf": "sysc(298, bytes(112), 0, -1, -1, 0)",
    "set up io_uring": "sysc(425, 8, ctypes.create_string_buffer(120))",
    "handle page faults": "sysc(323, 0)",
    "load another kernel": "sysc(246, 0, 0, None, 0)",
    "load another kernel from a file": "sysc(320, 0, 0, 0, None, 0)",
    "load a module": "sysc(175, bytes(8), 8, b'')",
    "load a module from a file": "sysc(313, 0, b'', 0)",
    "remove a module": "sysc(176, b'overlay', 0)",
    "open a file by its handle": "sysc(304, -100, bytes(32), 0)",
    "get a handle of a file": "sysc(303, -100, b'/', bytes(256), bytes(8), 0)",
    "restart the machine": "sysc(169, 0xfee1dead, 672274793, 0, None)",
    "swap to a file": "sysc(167, b'/tmp/x', 0)",
    "set the clock": "sysc(227, 0, bytes(16))",
    "adjust the clock": "sysc(159, bytes(208))",
    "account for processes": "sysc(163, b'/tmp/x')",
    "set a quota": "sysc(179, 0x800007, b'/', 0, None)",
    "allow itself ports of the machine": "sysc(172, 3)",
    "change its segments": "sysc(154, 1, bytes(16), 16)",
    "add a key": "sysc(248, b'user', b'a', b'b', 1, -3)",
    "hang up a terminal": "sysc(153)",
    "watch a file system": "sysc(300, 0, 0)",
    "type into a terminal": "libc.ioctl(0, 0x5412, b'x') and held(error())",
    "change what a terminal's line does": "libc.ioctl(0, 0x5423, bytes(4)) and held(error())",
    "move pages": "sysc(256, os.getpid(), 0, None, None)",
}

ESCAPE = [
    *(_escape(name, f"{call}; breach()") for name, call in _CALLS.items()),
    _escape("name the machine", "socket.sethostname('pwned'); breach()"),
    _escape("clone with a record that no filter sees",
            "sysc(435, struct.pack('11Q', 0x10000000, *[0] * 10), 88); breach()", r"Errno 38\]"),
    _escape("use the calls of x32", "sysc(0x40000000 + 39); breach()", r"Errno 38\]"),
    _escape("use the calls of i386",
            "libc.personality(8)\n"
            "m = mmap.mmap(-1, 4096, prot=7); m.write(bytes.fromhex('b814000000cd80c3'))\n"
            "ctypes.CFUNCTYPE(ctypes.c_int)("
            "ctypes.addressof(ctypes.c_char.from_buffer(m)))(); breach()", "signal 31"),
    _escape("break out of a chroot",
            "os.makedirs('/tmp/jail', exist_ok=True); top = os.open('/', 0)\n"
            "os.chroot('/tmp/jail')\n"
            "os.fchdir(top); os.chdir('../' * 40); os.chroot('.')\n"
            "breach(read(C['public']))", HIDDEN, tiers=NAMESPACES),
    _escape("enter a chroot without namespaces", "os.chroot('/tmp'); breach()", tiers=LANDLOCK),
    _escape("make a device", "os.mknod('/tmp/disk', 0o60666, os.makedev(C['disk'], 0))\n"
            "os.open('/tmp/disk', 0); breach()"),
    _escape("take all capabilities",
            "sysc(126, struct.pack('Ii', 0x20080522, 0), b'\\xff' * 24); breach()"),
    _escape("have its crash handled by the machine",
            "resource.setrlimit(resource.RLIMIT_CORE, (0, 0))\n"
            "kept = resource.getrlimit(resource.RLIMIT_CORE)\n"
            "held('the limit stays') if kept == (1, 1) else breach(str(kept))",
            "the limit stays"),
    _escape("keep a dangerous capability",
            "text = attempt(read, '/proc/self/status')\n"
            "cut = 'CapBnd:' in text and int(text.split('CapBnd:')[1].split()[0], 16)\n"
            "bad = [n for n in (12, 13, 16, 17, 19, 21, 22, 24, 25, 27, 38, 39, 40)\n"
            "       if cut and libc.prctl(23, n, 0, 0, 0) == 1]\n"
            "breach(str(bad)) if bad else held('cut')", "cut"),
    *(
        _escape(f"write /proc/{name}",
                f"open('/proc/{name}', 'w').write(C['harmless']); breach()",
                HIDDEN + r"|Errno 30\]")
        for name in ("sys/kernel/core_pattern", "sys/kernel/modprobe", "sys/vm/drop_caches",
                     "sys/kernel/pid_max", "sys/user/max_user_namespaces", "sysrq-trigger")
    ),
    _escape("be started by a control group's release",
            "os.mkdir('/tmp/cg'); sysc(165, b'cgroup', b'/tmp/cg', b'cgroup', 0, b'memory')\n"
            "breach()"),
    _escape("write to the control groups of the host",
            "open('/sys/fs/cgroup/memory/cgroup.procs', 'w').write('1'); breach()", HIDDEN),
    _escape("read a secret with a set-uid program of the host",
            "done = subprocess.run(['sudo', '-n', 'cat', C['secret']], capture_output=True,"
            " text=True, timeout=10)\n"
            "breach(done.stdout) if C['mark'] in done.stdout else held(done.stderr)",
            r"(?i)no such file|permission denied|not permitted", user="user"),
    _escape("read a secret with a set-uid program made inside",
            "shutil.copy('/bin/cat', '/tmp/suid-cat'); os.chmod('/tmp/suid-cat', 0o4755)\n"
            "done = subprocess.run(['/tmp/suid-cat', C['secret']], capture_output=True,"
            " text=True)\n"
            "breach(done.stdout) if C['mark'] in done.stdout else held(done.stderr)",
            r"(?i)no such file|permission denied", tiers=NAMESPACES),
    _escape("plant a whiteout over a program of the host",
            "os.mkdir('/usr/local/planted'); os.mknod('/usr/local/planted/env', 0o20000, 0)\n"
            "os.rename('/usr/local/planted/env', '/usr/bin/env')\n"
            "held('only in its own layer')", "own layer|Errno|Error", tiers=NAMESPACES),
    _escape("plant an overlay redirection",
            "os.makedirs('/srv/redirected', exist_ok=True)\n"
            "os.setxattr('/srv/redirected', 'trusted.overlay.redirect', b'/../../etc'); breach()",
            r"Errno 1\]|Errno 95\]", tiers=NAMESPACES),
    _escape("plant a user's overlay redirection",
            "os.makedirs('/srv/redirected', exist_ok=True)\n"
            "attempt(os.setxattr, '/srv/redirected', 'user.overlay.redirect', b'/../../root')\n"
            "attempt(os.setxattr, '/srv/redirected', 'user.overlay.opaque', b'y')\n"
            "breach() if os.listdir('/srv/redirected') else held('nothing there')",
            "nothing there", tiers=NAMESPACES),
]  # fmt: skip

SCRIPTS = [*READ, *PROCESSES, *NETWORK, *ESCAPE]
