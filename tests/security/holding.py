"""Programs that hold disk and memory where a look at names and address spaces finds nothing.

Each holds three times the limit, waits, and prints "everything" when nobody stopped it. ``disk``
programs need a limit of 64 MiB or less, ``memory`` programs one of 256 MiB or less.
"""

from __future__ import annotations

_COMMON = """
import array, ctypes, mmap, os, socket, sys, threading, time
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, *[ctypes.c_size_t] * 5]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
MIB = 1 << 20

def fill(fd, mib):
    left = mib * MIB
    while left: left -= os.write(fd, b'x' * min(left, MIB))

def without_name(path, mib=32):
    fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR)
    os.unlink(path)
    fill(fd, mib)
    return fd

def memory_file(mib=32):
    fd = os.memfd_create('m')
    fill(fd, mib)
    return fd

def map_a_page(fd):
    address = libc.mmap(None, 4096, 1, 1, fd, 0)
    assert address != ctypes.c_void_p(-1).value
    os.close(fd)

def send(sock, fd, data=b'x'):
    sock.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [fd]))])
    os.close(fd)

def stay():
    print('held', flush=True)
    time.sleep(PATIENCE)
    print('every' + 'thing', flush=True)

home = os.path.expanduser('~')
PLACE = '/' if os.access('/', os.W_OK) else f'{home}/'
kept = []
PARENT = os.getpid()
"""


def program(body: str, patience: float) -> str:
    """The whole program; ``patience`` is how long it waits, in seconds."""
    return f"PATIENCE = {patience}\n{_COMMON}\n{body}\n"


DISK: dict[str, str] = {
    "names like those of memory": """
for name in ('/memfd:x', '/SYSV00000000', '/anon_hugepage'):
    for n in range(2): kept.append(without_name(f'{PLACE}{name.lstrip("/")}{n}'))
stay()
""",
    "mapped by a page and closed": """
for n in range(6): map_a_page(without_name(f'{home}/gone'))
stay()
""",
    "in flight in a stream": """
a, b = socket.socketpair()
a.send(b'x')
for n in range(6): send(a, without_name(f'{home}/gone'))
stay()
""",
    "in flight in messages": """
a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
for n in range(6): send(a, without_name(f'{home}/gone'))
stay()
""",
    "in flight in a socket in flight": """
a, b = socket.socketpair()
for n in range(6): send(a, without_name(f'{home}/gone'))
c, d = socket.socketpair()
send(c, b.detach())
send(c, a.detach())
stay()
""",
    "with a name": """
for n in range(6):
    with open(f'{home}/named{n}', 'wb', buffering=0) as f: fill(f.fileno(), 32)
kept.append(open(f'{home}/last', 'wb'))
stay()
""",
}
"""What holds 192 MiB or more of disk, by its name."""

WAITING_CONNECTION = """
sock = socket.socket(socket.AF_UNIX)
sock.bind('\\0waiting'); sock.listen(99)
for n in range(12):
    client = socket.socket(socket.AF_UNIX); client.connect('\\0waiting')
    send(client, without_name(f'{home}/gone', 16)); client.close()
stay()
"""
"""Descriptors in connections that nobody accepts cannot be looked at, only counted."""

SUBVOLUME = """
import fcntl
fd = os.open('/volume', os.O_RDONLY)
try: fcntl.ioctl(fd, 0x5000940E, bytearray(b'\\0' * 8 + b'new'.ljust(4088, b'\\0')))
except PermissionError as error: print(error)
else: stay()
"""
"""A new subvolume in a volume would have no limit."""

VOLUME = """
for n in range(6):
    with open(f'/volume/named{n}', 'wb', buffering=0) as f: fill(f.fileno(), 32)
kept.append(open('/volume/last', 'wb'))
stay()
"""

MEMORY: dict[str, str] = {
    "memory files that nobody maps": """
for n in range(24): kept.append(memory_file())
stay()
""",
    "memory files in flight": """
a, b = socket.socketpair()
for n in range(24): send(a, memory_file())
stay()
""",
    "memory files mapped by a page": """
for n in range(24): map_a_page(memory_file())
stay()
""",
    "shared mappings of which a page is left": """
for n in range(24):
    address = libc.mmap(None, 32 * MIB, 3, 0x21, ctypes.c_size_t(-1).value, 0)
    ctypes.memset(address, 1, 32 * MIB)
    libc.munmap(address + 4096, 32 * MIB - 4096)
stay()
""",
    "System V segments and memory files": """
libc.shmat.restype = ctypes.c_void_p
libc.shmdt.argtypes = [ctypes.c_void_p]
for n in range(12):
    number = libc.shmget(0, ctypes.c_size_t(16 * MIB), 0o1600)
    if number < 0: break
    address = libc.shmat(number, None, 0)
    ctypes.memset(address, 1, 16 * MIB)
    libc.shmdt(address)
for n in range(5): kept.append(memory_file())
stay()
""",
    "a process whose first thread has ended": """
def hold():
    for n in range(24):
        kept.append(mmap.mmap(-1, 32 * MIB)); kept[-1].write(b'x' * (32 * MIB))
    stay()
    os._exit(0)
threading.Thread(target=hold).start()
libc.syscall(60 if os.uname().machine == 'x86_64' else 93, 0)
""",
    "buffers of TCP": """
server = socket.create_server(('127.0.0.1', 0), backlog=200)
for n in range(200):
    client = socket.create_connection(server.getsockname()); kept.append(client)
    client.setblocking(False)
    accepted, _ = server.accept(); kept.append(accepted)
    try:
        while True: client.send(b'x' * MIB)
    except BlockingIOError: pass
stay()
""",
}
"""What holds 352 MiB or more of memory, by its name."""

MANY_CONNECTIONS = """
def fill_buffers():
    server = socket.create_server(('127.0.0.1', 0), backlog=400)
    for n in range(400):
        client = socket.create_connection(server.getsockname()); kept.append(client)
        client.setblocking(False)
        accepted, _ = server.accept(); kept.append(accepted)
        try:
            while True: client.send(b'x' * MIB)
        except BlockingIOError: pass
children = [os.fork() for n in range(12) if PARENT == os.getpid()]
if os.getpid() != PARENT:
    fill_buffers()
    time.sleep(PATIENCE)
    os._exit(0)
ended = [os.waitpid(pid, 0)[1] for pid in children]
if not any(ended): print('every' + 'thing')
"""
"""More sockets than a brake on the memory of TCP holds; ``PARENT`` is this process."""
