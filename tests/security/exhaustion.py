"""Attacks that use up what there is, while the engine and another sandbox must go on answering."""

from __future__ import annotations

from tests.security import holding, outside
from tests.security.attacks import LANDLOCK, NAMESPACES, TIERS
from tests.security.attempts import (
    Exhaustion,
    engine_stays_small,
    log_is_short,
    logged,
    printed,
    stopped,
)

ATTACKS = [
    Exhaustion(
        "processes",
        "a fork bomb",
        """
        import os, time
        while True:
            try:
                if os.fork() == 0: pass
            except OSError: time.sleep(0.01)
        """,
        seconds=3,
    ),
    Exhaustion(
        "processes",
        "threads",
        """
        import threading, time
        n = 0
        try:
            while n < 5000:
                threading.Thread(target=time.sleep, args=(9,), daemon=True).start(); n += 1
        except RuntimeError: pass
        print(n < 200, n, flush=True)
        import os; os._exit(0)
        """,
        holds=(printed("True"),),
        seconds=60,
    ),
    Exhaustion(
        "processes",
        "a fork bomb beside which another sandbox forks",
        # Children that stay: the place is taken for as long as the other one tries.
        """
        import os, time
        made = 0
        end = time.time() + 3
        while time.time() < end:
            try:
                if os.fork() == 0: time.sleep(5); os._exit(0)
                made += 1
            except OSError: time.sleep(0.01)
        print('made', made)
        """,
        holds=(outside.forks_are_limited,),
        seconds=60,
        outside=outside.another_sandbox_forks,
    ),
    Exhaustion(
        "processes",
        "started through the interface",
        holds=(outside.processes_are_limited,),
        outside=outside.start_by_the_interface,
    ),
    Exhaustion(
        "the first process",
        "programs that stop and end in strange ways",
        # Its parent is the first process, or the keeper, which waits for it.
        """
        import ctypes, os, signal
        libc = ctypes.CDLL(None)
        for number in (signal.SIGUSR1, signal.SIGSTOP, signal.SIGSEGV, 34, 64):
            if os.fork() == 0:
                if os.fork(): os._exit(255)
                os.setsid()
                libc.ptrace(0, 0, 0, 0)
                os.kill(os.getpid(), number)
                os._exit(0)
        libc.ptrace(0, 0, 0, 0)
        print("made", flush=True)
        os.kill(os.getpid(), signal.SIGUSR2)
        """,
        holds=(outside.it_still_answers,),
        seconds=3,
    ),
    Exhaustion(
        "memory",
        "one process",
        """
        x = []
        while len(x) < 900: x.append(b'x' * (1 << 20))
        print('every' + 'thing')
        """,
        holds=(stopped,),
        seconds=60,
    ),
    Exhaustion(
        "memory",
        "many processes",
        """
        import os, time
        kids = []
        for _ in range(12):
            pid = os.fork()
            if pid == 0:
                x = os.urandom(1 << 20) * 100; time.sleep(4); os._exit(0)
            kids.append(pid)
        left = [k for k in kids if os.waitpid(k, 0)[1] == 0]
        print('left', len(left))
        """,
        holds=(outside.not_every_child_is_left, logged("out of memory")),
        seconds=60,
    ),
    Exhaustion(
        "memory",
        "many processes that grow fast",
        """
        import os, time
        for _ in range(12):
            if os.fork() == 0:
                x = []
                for _ in range(50): x.append(b'x' * (3 << 20)); time.sleep(0.2)
                os._exit(0)
        print('left', [os.wait()[1] for _ in range(12)].count(0))
        """,
        holds=(outside.not_every_child_is_left,),
        seconds=90,
        outside=outside.memory_stays_below_twice_the_limit,
    ),
    Exhaustion(
        "processor",
        "spinning",
        """
        import os
        for _ in range(5): os.fork()
        while True: pass
        """,
        seconds=3,
    ),
    Exhaustion(
        "processor",
        "more processes than processors",
        """
        import os, time
        try: os.sched_setaffinity(0, set(range(64)))
        except OSError: pass
        os.system('taskset -pc 0-63 $$ >/dev/null 2>&1')
        try: os.nice(-20)
        except OSError: pass
        began = time.monotonic(); kids = []
        for n in range(8):
            pid = os.fork()
            if pid == 0:
                try: os.sched_setaffinity(0, {n % 2})
                except OSError: pass
                while time.monotonic() < began + 4: pass
                os._exit(0)
            kids.append(pid)
        for pid in kids: os.waitpid(pid, 0)
        used = os.times(); print((used[2] + used[3]) / (time.monotonic() - began))
        """,
        holds=(outside.one_processor_is_used,),
        seconds=60,
    ),
    Exhaustion(
        "the keeper's time",
        "a flood of calls that it answers",
        """
        import os, threading, time
        threading.stack_size(1 << 18)
        own = os.path.expanduser('~/own')
        open(own, 'w').close(); n = [0] * 50
        def flood(k):
            for i in range(200):
                try: os.chmod(own if i % 2 else '/etc/passwd', 0o600)
                except OSError: n[k] += 1
        all = [threading.Thread(target=flood, args=(k,)) for k in range(50)]
        began = time.monotonic()
        for t in all: t.start()
        for t in all: t.join()
        print(sum(n), time.monotonic() - began)
        """,
        holds=(printed("5000 "),),
        seconds=120,
        outside=outside.programs_start_in_it,
        tiers=LANDLOCK,
    ),
    Exhaustion(
        "disk",
        "one file",
        """
        import os
        f = open(os.path.expanduser('~/big'), 'wb', buffering=0)
        for _ in range(300): f.write(b'x' * (1 << 20))
        print('every' + 'thing')
        """,
        holds=(stopped,),
        seconds=60,
    ),
    Exhaustion(
        "disk",
        "many files",
        """
        import os, time
        for i in range(400):
            with open(os.path.expanduser(f'~/f{i}'), 'wb') as f: f.write(b'x' * (1 << 20))
            time.sleep(0.02)
        print('every' + 'thing')
        """,
        holds=(stopped, logged("disk"), outside.no_more_can_be_written),
        seconds=90,
    ),
    Exhaustion(
        "disk",
        "a file without a name",
        """
        import os, time
        fs = []
        for i in range(8):
            p = os.path.expanduser(f'~/f{i}'); f = open(p, 'wb', buffering=0)
            os.unlink(p); fs.append(f)
            for _ in range(40): f.write(b'x' * (1 << 20))
        time.sleep(60); print('every' + 'thing')
        """,
        holds=(stopped,),
        seconds=120,
    ),
    Exhaustion(
        "disk",
        "inodes",
        """
        import os, time
        d = os.path.expanduser('~/d'); os.mkdir(d)
        for i in range(100000):
            open(f'{d}/{i}', 'w').close()
            if i % 1000 == 0: time.sleep(0.1)
        print('every' + 'thing')
        """,
        holds=(stopped,),
        seconds=120,
    ),
    Exhaustion(
        "disk",
        "shared memory and /run",
        """
        f = open('/dev/shm/x', 'wb')
        for _ in range(200): f.write(b'x' * (1 << 20))
        """,
        holds=(outside.memory_of_files_is_limited,),
        seconds=60,
        tiers=NAMESPACES,
    ),
    Exhaustion(
        "descriptors",
        "one that is duplicated without end",
        """
        import os
        n = 0
        try:
            while n < 100000: os.dup(0); n += 1
        except OSError as e: print(n <= 1024, e)
        """,
        holds=(printed("True"),),
        seconds=60,
    ),
    Exhaustion(
        "buffers",
        "output without an end that nobody reads",
        holds=(engine_stays_small,),
        outside=outside.read_no_output,
    ),
    Exhaustion(
        "buffers",
        "a terminal that scrolls without an end",
        holds=(outside.scrollback_is_limited,),
        outside=outside.scroll_a_terminal,
    ),
    Exhaustion(
        "log",
        "refused connections",
        r"""
        import socket
        for i in range(1500):
            try:
                s = socket.create_connection(('127.0.0.1', 49982), 2)
                s.sendall(b'CONNECT 10.0.0.1:%d HTTP/1.1\r\n\r\n' % (i + 1)); s.recv(99)
            except OSError: pass
        """,
        holds=(log_is_short(1000),),
        seconds=60,
        tiers=NAMESPACES,
    ),
    Exhaustion(
        "connections",
        "held to the proxy",
        """
        import socket, time
        held = []
        end = time.time() + 4
        n = 0
        while time.time() < end and n < 100000:
            try:
                held.append(socket.create_connection(('127.0.0.1', 49982), 1)); n += 1
            except OSError: held.clear()
            if len(held) > 900: held.clear()
        print(n)
        """,
        seconds=8,
        tiers=NAMESPACES,
    ),
    Exhaustion(
        "watchers",
        "a storm of changes",
        """
        import os, time
        d = os.path.expanduser('~/storm'); end = time.time() + 3; i = 0
        while time.time() < end:
            i += 1; p = f'{d}/{i % 500}'
            if i % 3: open(p, 'w').close()
            else: os.path.exists(p) and os.unlink(p)
        """,
        holds=(engine_stays_small,),
        outside=outside.watch_the_storm,
    ),
    Exhaustion(
        "the agent's time",
        "an enormous tree",
        """
        import os
        for a in range(20):
            d = os.path.expanduser(f'~/t/{a}')
            os.makedirs(d)
            open(f'{d}/0', 'w').close()
            for b in range(1500): os.link(f'{d}/0', f'{d}/{b + 1}')
        print('made')
        """,
        holds=(printed("made"), outside.calls_are_answered_beside_long_ones),
        seconds=90,
    ),
    Exhaustion(
        "descriptors in flight",
        "others and the sandbox itself go on passing theirs",
        outside=outside.fill_the_count_in_flight,
    ),
    Exhaustion(
        "inotify instances",
        "all of one user",
        """
        import ctypes
        libc, made = ctypes.CDLL(None), 0
        while made < 1000 and libc.inotify_init1(0) >= 0: made += 1
        most = int(open('/proc/sys/fs/inotify/max_user_instances').read())
        print(made <= max(16, most // 4), made, most)
        """,
        holds=(printed("True"),),
        seconds=30,
        tiers=NAMESPACES,
    ),
    Exhaustion(
        "terminals",
        "all of the machine",
        """
        import os
        made = 0
        try:
            while made < 1000: os.openpty(); made += 1
        except OSError: pass
        print(made <= 256, made)
        """,
        holds=(printed("True"),),
        seconds=30,
        tiers=NAMESPACES,
    ),
    Exhaustion(
        "memory",
        "System V segments that nobody maps",
        """
        import ctypes
        libc, made = ctypes.CDLL(None), 0
        while made < 256 and libc.shmget(0, ctypes.c_size_t(16 << 20), 0o1600) >= 0: made += 1
        print(made * 16 <= 256, made)
        """,
        holds=(printed("True"),),
        seconds=30,
        tiers=NAMESPACES,
    ),
]

_HELD = (
    ("disk", holding.DISK, "names like those of memory", TIERS),
    ("disk", holding.DISK, "in flight in a stream", TIERS),
    ("memory", holding.MEMORY, "memory files that nobody maps", TIERS),
    ("memory", holding.MEMORY, "memory files in flight", TIERS),
    ("memory", holding.MEMORY, "a process whose first thread has ended", TIERS),
    # A control group of root's engine limits these instead of ending the program.
    ("memory", holding.MEMORY, "buffers of TCP", NAMESPACES[1:]),
)
"""What hides from a look at names and address spaces; engines of ordinary users find it too."""

ATTACKS += [
    Exhaustion(
        resource, name, holding.program(programs[name], 60), (stopped,), seconds=120, tiers=tiers
    )
    for resource, programs, name, tiers in _HELD
]
