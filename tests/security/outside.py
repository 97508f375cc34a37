"""What is done and looked at from outside while a sandbox uses something up."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from tests.security.attempts import Attempt, beside, python, was_in_time
from tests.security.interface import refused
from tests.waiting import PATIENCE, async_until

PROCESSES = 128
"""What a sandbox may have in the siege."""

_FORK_A_LITTLE = """
import os, threading
for _ in range(100):
    pid = os.fork()
    if pid == 0: os._exit(0)
    os.waitpid(pid, 0)
    t = threading.Thread(target=int); t.start(); t.join()
print('forked')
"""


@beside
async def another_sandbox_forks(attempt: Attempt) -> None:
    await asyncio.sleep(1)
    done = await attempt.siege.sibling.commands.run(python(_FORK_A_LITTLE), timeout=PATIENCE)
    assert done.stdout == "forked\n", done.stderr[-300:]


async def forks_are_limited(attempt: Attempt) -> None:
    # Either the kernel refused more, or the keeper ended it.
    made = attempt.said.removeprefix("made ").split()[0]
    assert attempt.said.endswith("(-1)") or 64 < int(made) < 2 * PROCESSES, attempt.said


@contextlib.asynccontextmanager
async def start_by_the_interface(attempt: Attempt) -> AsyncIterator[None]:
    refusals = 0
    for _ in range(160):
        try:
            handle = await attempt.victim.commands.run("sleep 300", background=True, timeout=300)
        except Exception:
            refusals += 1
        else:
            await handle.disconnect()
    attempt.notes.append(f"{refusals} of 160 were refused")
    yield


async def processes_are_limited(attempt: Attempt) -> None:
    # Where it is counted per id, the agent is of another one; and a process that is refused
    # between its fork and its program is listed until it has ended.
    counts: list[int] = []

    async def are_few() -> bool:
        counts.append(len(await attempt.victim.commands.list()))
        return counts[-1] <= PROCESSES + 1

    await async_until(are_few, message="Too many processes run", step=0.2)
    attempt.notes.append(f"{counts[-1]} run")


async def it_still_answers(attempt: Attempt) -> None:
    done = await attempt.victim.commands.run("echo alive", timeout=PATIENCE)
    assert done.stdout == "alive\n", done


async def not_every_child_is_left(attempt: Attempt) -> None:
    await was_in_time(attempt)
    assert "left 12" not in attempt.said, attempt.said


@contextlib.asynccontextmanager
async def memory_stays_below_twice_the_limit(attempt: Attempt) -> AsyncIterator[None]:
    with attempt.siege.memory_peak(attempt.victim) as peak:
        yield
    attempt.notes.append(f"at most {peak[0] >> 20} of 256 MiB")
    assert peak[0] < 512 << 20, f"{peak[0] >> 20} MiB, twice the limit"


async def one_processor_is_used(attempt: Attempt) -> None:
    assert 0.02 < float(attempt.said.split()[0]) < 1.15, attempt.said


@beside
async def programs_start_in_it(attempt: Attempt) -> None:
    for _ in range(5):
        done = await attempt.victim.commands.run("chmod 700 . && echo in", timeout=30)
        assert done.stdout == "in\n", done.stderr


async def no_more_can_be_written(attempt: Attempt) -> None:
    over = await refused(attempt.victim.files.write("more", b"x" * 100))
    assert over.startswith("resource_exhausted") or "space" in over, over


async def memory_of_files_is_limited(attempt: Attempt) -> None:
    said = attempt.said
    assert "No space" in said or "(137)" in said or "(-9)" in said, said


@contextlib.asynccontextmanager
async def read_no_output(attempt: Attempt) -> AsyncIterator[None]:
    streams = [await attempt.victim.commands.start("yes", timeout=8) for _ in range(4)]
    await asyncio.sleep(2)
    yield
    for stream in streams:
        await stream.aclose()


@contextlib.asynccontextmanager
async def scroll_a_terminal(attempt: Attempt) -> AsyncIterator[None]:
    pty = await attempt.victim.pty.create(80, 24, timeout=20)
    await pty.send(b"yes '\x1b[2J\x1b]0;x\x07'\n")
    await asyncio.sleep(2)
    yield
    await pty.kill()


async def scrollback_is_limited(attempt: Attempt) -> None:
    folder = attempt.siege.data / "run" / attempt.victim.sandbox_id
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    attempt.notes.append(f"{size >> 10} KiB are kept")
    assert size < 4 << 20, f"{size >> 20} MiB of scrollback"


@contextlib.asynccontextmanager
async def watch_the_storm(attempt: Attempt) -> AsyncIterator[None]:
    await attempt.victim.files.make_dir("storm")
    watch = await attempt.victim.files.watch("storm", recursive=True)
    yield
    await watch.aclose()


async def calls_are_answered_beside_long_ones(attempt: Attempt) -> None:
    files = attempt.victim.files
    meanwhile = 0
    works = [asyncio.ensure_future(refused(files.list("t", 3))) for _ in range(3)]
    works.append(asyncio.ensure_future(refused(files.watch("t", recursive=True))))
    works.append(asyncio.ensure_future(refused(files.remove("t"))))
    while not all(work.done() for work in works):
        await files.exists("/tmp")
        meanwhile += not all(work.done() for work in works)
        await asyncio.sleep(0.01)
    attempt.notes.append(f"{meanwhile} other calls were answered meanwhile")
    assert meanwhile >= 2, f"{meanwhile} calls were answered meanwhile"


FLOOD_IN_FLIGHT = """
import array, os, resource, socket, time
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
try: resource.setrlimit(resource.RLIMIT_NOFILE, (1 << 20, 1 << 20))
except (OSError, ValueError): resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
fd, kept, sent, why = os.open("/dev/null", os.O_RDONLY), [], 0, None
rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd] * 253).tobytes())]
while why is None:
    try:
        pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        pair[0].setblocking(False)
    except OSError as error:
        why = error
        break
    kept.append(pair)
    for _ in range(64):
        try: pair[0].sendmsg([b"x"], rights); sent += 253
        except BlockingIOError: break
        except OSError as error: why = error; break
print(sent, why, flush=True)
time.sleep(300)
"""


@contextlib.asynccontextmanager
async def fill_the_count_in_flight(attempt: Attempt) -> AsyncIterator[None]:
    siege, victim, said = attempt.siege, attempt.victim, attempt.notes
    for user in ("user", "root"):
        printed: asyncio.Queue[str] = asyncio.Queue()
        await victim.commands.run(
            python(FLOOD_IN_FLIGHT),
            user=user,
            background=True,
            timeout=300,
            on_stdout=printed.put_nowait,
        )
        said.append((await asyncio.wait_for(printed.get(), PATIENCE)).strip())
    assert all("Too many references" in text for text in said), said
    if siege.tier in ("namespaces-user", "landlock"):
        # They count as the user's, whose own programs usually may have 1,024 in flight.
        assert sum(int(text.split()[0]) for text in said) < 1024, said
    for other in (victim, siege.sibling):
        assert (await other.commands.run("echo alive", timeout=PATIENCE)).stdout == "alive\n"
        await other.files.write("/tmp/passed", "x")
        assert await other.files.read("/tmp/passed") == "x"
    async with await siege.create() as late:
        assert (await late.commands.run("echo born", timeout=PATIENCE)).stdout == "born\n"
    yield
