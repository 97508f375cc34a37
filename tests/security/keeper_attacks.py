"""Attacks on the keeper, who changes files in place of programs, and on what it stands for.

Every one tries to have it change a file outside. Where no keeper is, the same scripts meet the
namespaces. Those that race end in ``held`` when they lost; that nothing outside changed is looked
at from outside, too.
"""

from __future__ import annotations

from tests.security.attacks import DENIED, HIDDEN, LANDLOCK, TIERS, Attack

_RACED = r"^Held raced [1-9]"
_GROUP = "have a file outside changed"


def _change(
    name: str, script: str, refusal: str = HIDDEN, tiers: tuple[str, ...] = TIERS
) -> Attack:
    return Attack(name, _GROUP, script, refusal, tiers)


_RACE = """
import threading
home = os.path.expanduser('~/{folder}')
os.makedirs(home, exist_ok=True)
open(home + '/public', 'w').close(); open(home + '/own', 'w').close()
over = time.monotonic() + 1.5
seen = attempt(os.stat, C['public'])
def swap():
    while time.monotonic() < over:
        {swap}
{prepare}
threading.Thread(target=swap, daemon=True).start()
made = done = 0
while time.monotonic() < over:
    made += 1
    try:
        {change}
        done += 1
    except OSError:
        pass
breach() if attempt(os.stat, C['public']) != seen else held(f'raced {{made}} {{done}}')
"""


def _race(name: str, prepare: str, swap: str, change: str) -> Attack:
    folder = "race-" + name.replace(" ", "-")
    script = _RACE.format(
        folder=folder, prepare=prepare, swap=swap.replace("\n", "\n        "), change=change
    )
    return _change(f"win a race: {name}", script, _RACED)


ATTACKS = [
    _change(
        "change the mode by every call that there is",
        "path, here = C['public'].encode(), -100\n"
        "for call in ((90, path, 0), (268, here, path, 0), (452, here, path, 0, 0),\n"
        "             (452, here, path, 0, 0x100)):\n"
        "    said = attempt(sysc, *call)\n"
        "    if said == '0': breach(str(call))\n"
        "held(said)",
        HIDDEN,
    ),
    _change(
        "change the times by every call that there is",
        "path, here = C['public'].encode(), -100\n"
        "for call in ((132, path, None), (235, path, None), (261, here, path, None),\n"
        "             (280, here, path, None, 0), (280, here, path, bytes(32), 0),\n"
        "             (280, here, path, bytes(32), 0x100), (132, path, bytes(16))):\n"
        "    said = attempt(sysc, *call)\n"
        "    if said == '0': breach(str(call))\n"
        "held(said)",
        HIDDEN,
    ),
    _change(
        "change attributes by the call for flags",
        "sysc(469, -100, C['public'].encode(), bytes(24), 24, 0); breach()",
        r"Errno 2\]|Errno 13\]|Errno 38\]|Errno 95\]",
    ),
    _change(
        "change the mode through a link",
        "link = os.path.expanduser('~/to-a-file'); os.symlink(C['public'], link)\n"
        "os.chmod(link, 0); breach()",
    ),
    _change(
        "change the mode through links that lead back and out again",
        "home = os.path.expanduser('~'); os.symlink(home, home + '/back')\n"
        "os.symlink(home + '/back/out', home + '/in'); os.symlink(C['public'], home + '/out')\n"
        "os.chmod(home + '/in', 0); breach()",
    ),
    _change(
        "change the mode below a linked directory",
        "link = os.path.expanduser('~/to-a-folder'); os.symlink(C['home'], link)\n"
        "os.chmod(link + '/public', 0); breach()",
    ),
    _change(
        "change the mode by dots",
        "os.chdir(os.path.expanduser('~'))\nos.chmod('../' * 40 + C['public'][1:], 0); breach()",
    ),
    _change(
        "change the mode by dots behind its own directory",
        "os.chmod(os.path.expanduser('~') + '/..' * 40 + C['public'], 0); breach()",
    ),
    _change(
        "change the mode from a directory outside",
        "os.chdir(C['home']); os.chmod('public', 0); breach()",
    ),
    _change(
        "change the mode relative to a directory outside",
        "fd = os.open(C['home'], os.O_PATH); os.chmod('public', 0, dir_fd=fd); breach()",
    ),
    _change(
        "change the mode of a file that was only looked up",
        "fd = os.open(C['public'], os.O_PATH); sysc(452, fd, b'', 0, 0x1000); breach()",
    ),
    _change(
        "change the times of a file that was only looked up",
        "fd = os.open(C['public'], os.O_PATH); sysc(280, fd, b'', None, 0x1000); breach()",
    ),
    _change(
        "change the mode of the directory that it stands in",
        "os.chdir(C['home']); sysc(452, -100, b'', 0, 0x1000); breach()",
    ),
    *(
        _change(
            f"change the mode through {name}",
            f"fd = os.open(C['public'], os.O_PATH)\nos.chmod({path}, 0); breach()",
        )
        for name, path in {
            "its descriptors in /proc": "f'/proc/self/fd/{fd}'",
            "its descriptors in /dev": "f'/dev/fd/{fd}'",
            "its root in /proc": "'/proc/self/root' + C['public']",
            "the root of a process outside": "f\"/proc/{C['victim']}/root{C['public']}\"",
            "the directory of a process outside": "f\"/proc/{C['victim']}/cwd/public\"",
            "a descriptor of a process outside": "f\"/proc/{C['victim']}/fd/{C['victim_fd']}\"",
            "a thread in /proc": "'/proc/thread-self/root' + C['public']",
        }.items()
    ),
    _change(
        "change the mode of a file beside its own directory",
        "root = os.path.expanduser('~').rpartition('/home/')[0]\n"
        "os.chmod(root + '-beside', 0) if root else os.chmod(C['public'], 0); breach()",
    ),
    _change(
        "change the mode of the directory above its own",
        "root = os.path.expanduser('~').rpartition('/home/')[0]\n"
        "os.chmod(os.path.dirname(root), 0o755) if root else os.chmod(C['public'], 0); breach()",
    ),
    _change(
        "give a path that is not in its memory",
        "sysc(90, 1 << 46, 0); breach()",
        r"Errno 14\]",
    ),
    _change(
        "give a path without an end",
        "m = mmap.mmap(-1, 8192); m.write(b'/' * 8192)\n"
        "sysc(90, ctypes.addressof(ctypes.c_char.from_buffer(m)), 0); breach()",
        r"Errno 36\]",
    ),
    _change(
        "keep the keeper walking",
        "home = os.path.expanduser('~/walk'); os.makedirs(home)\n"
        "for i in range(60): os.symlink(home + '/.' * 1500 + f'/{i + 1}', f'{home}/{i}')\n"
        "os.symlink(home + '/loop', home + '/loop')\n"
        "began = time.monotonic(); said = attempt(os.chmod, home + '/0', 0)\n"
        "said += attempt(os.chmod, home + '/loop', 0)\n"
        "held(said) if time.monotonic() - began < 5 else breach('slow')",
        r"Errno 40\].*Errno 40\]",
    ),
    _change(
        "answer its own calls",
        "libc.prctl(38, 1, 0, 0, 0)\n"
        "code = ctypes.create_string_buffer(struct.pack('HBBI', 6, 0, 0, 0x7fff0000))\n"
        "fd = sysc(317, 1, 8, struct.pack('HxxxxxxQ', 1, ctypes.addressof(code))); breach()",
        r"Errno 16\]",
        tiers=LANDLOCK,
    ),
    _change(
        "remove shared memory of the host by its number",
        "sysc(31, C['shm_id'], 0, None); breach()",
        DENIED + r"|Errno 22\]|Errno 43\]",
    ),
    _change(
        "die while the keeper works",
        "path = os.path.expanduser('~/dying'); open(path, 'w').close()\n"
        "for turn in range(150):\n"
        "    pid = os.fork()\n"
        "    if pid == 0:\n"
        "        while True: attempt(os.chmod, path, 0o600); attempt(os.chmod, C['public'], 0)\n"
        "    time.sleep(turn % 7 / 2000); os.kill(pid, 9); os.waitpid(pid, 0)\n"
        "os.chmod(path, 0o640); held(oct(os.stat(path).st_mode))",
        r"^Held 0o100640$",
    ),
    _race(
        "a link that changes",
        "os.symlink(home + '/own', home + '/a'); os.symlink(C['public'], home + '/b')\n"
        "os.symlink(home + '/own', home + '/link')",
        "for name in 'ab':\n"
        "    os.symlink(os.readlink(home + '/' + name), home + '/next')\n"
        "    os.rename(home + '/next', home + '/link')",
        "os.chmod(home + '/link', 0o600)",
    ),
    _race(
        "a directory that becomes a link",
        "os.mkdir(home + '/d'); open(home + '/d/public', 'w').close()",
        "os.rename(home + '/d', home + '/e'); os.symlink(C['home'], home + '/d')\n"
        "os.unlink(home + '/d'); os.rename(home + '/e', home + '/d')",
        "os.chmod(home + '/d/public', 0o600)",
    ),
    _race(
        "a path that changes in memory",
        "one, two = (home + '/own').encode(), C['public'].encode()\n"
        "buffer = ctypes.create_string_buffer(max(len(one), len(two)) + 1)\n"
        "buffer.value = one",
        "buffer.value = one\nbuffer.value = two",
        "sysc(90, buffer, 0o600)",
    ),
    _race(
        "a working directory that changes",
        "os.chdir(home)",
        "attempt(os.chdir, C['home'])\nos.chdir(home)",
        "os.chmod('public', 0o600)",
    ),
    _race(
        "a directory descriptor that changes",
        "one = os.open(home, os.O_PATH); two = attempt(os.open, C['home'], os.O_PATH)\n"
        "two = int(two) if two.isdigit() else one; at = os.dup(one)",
        "os.dup2(two, at)\nos.dup2(one, at)",
        "os.chmod('public', 0o600, dir_fd=at)",
    ),
    _race(
        "a descriptor that changes",
        "one = os.open(home + '/own', os.O_PATH)\n"
        "two = attempt(os.open, C['public'], os.O_PATH)\n"
        "two = int(two) if two.isdigit() else one; at = os.dup(one)",
        "os.dup2(two, at)\nos.dup2(one, at)",
        "sysc(452, at, b'', 0o600, 0x1000)",
    ),
]
