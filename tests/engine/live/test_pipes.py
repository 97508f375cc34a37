"""Pipes of processes, used in a thread that a program may hold up."""

from __future__ import annotations

import asyncio
import fcntl
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sbx_jupyter.engine.live.pipes import CAPACITY, PipeThread
from sbx_jupyter.engine.live.process_io import InputWriter, PipeReader
from tests.waiting import async_until, until

if TYPE_CHECKING:
    from sbx_jupyter.engine.live.process_io import OutputReader

# Memory whose pages nobody ever provides: the kernel waits for them with the lock of the pipe.
_HOLD = """
import ctypes, fcntl, mmap, os, struct, sys
uffd = ctypes.CDLL(None).syscall(int(sys.argv[1]), os.O_CLOEXEC)
fcntl.ioctl(uffd, 0xC018AA3F, bytearray(struct.pack("QQQ", 0xAA, 0, 0)))
memory = mmap.mmap(-1, 1 << 16)
start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
fcntl.ioctl(uffd, 0xC020AA00, bytearray(struct.pack("QQQQ", start, 1 << 16, 1, 0)))
os.write(1, b"held")
os.write(1, memory)
"""


class Taken:
    """What a reader delivered."""

    def __init__(self, thread: PipeThread, fd: int) -> None:
        os.set_blocking(fd, False)
        self.content = b""
        self.sizes: list[int] = []
        self.most = 1 << 30
        self.has_ended = False
        self.reader = PipeReader(thread, fd, "stdout", self._take, self._end)

    def _take(self, kind: str, chunk: bytes) -> bool:
        assert kind == "stdout"
        self.content += chunk
        self.sizes.append(len(chunk))
        if len(self.content) < self.most:
            return True
        self.reader.pause()
        return False

    def _end(self, reader: OutputReader) -> None:
        assert reader is self.reader
        self.has_ended = True


async def test_output_arrives_in_order_to_its_end() -> None:
    thread, (read, write) = PipeThread(), os.pipe()
    taken = Taken(thread, read)
    taken.reader.resume()

    os.write(write, b"one ")
    await async_until(lambda: taken.content == b"one ")
    os.write(write, b"two")
    os.close(write)
    await async_until(lambda: taken.has_ended)

    assert taken.content == b"one two"


async def test_chunks_are_as_large_as_clients_expect() -> None:
    thread, (read, write) = PipeThread(), os.pipe()
    fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, CAPACITY)
    taken = Taken(thread, read)
    os.write(write, bytes(CAPACITY // 2))
    os.close(write)

    taken.reader.resume()
    await async_until(lambda: taken.has_ended)

    assert len(taken.content) == CAPACITY // 2
    assert max(taken.sizes) == 32 * 1024


async def test_a_paused_reader_leaves_the_rest_in_the_pipe() -> None:
    thread, (read, write) = PipeThread(), os.pipe()
    taken = Taken(thread, read)
    taken.most = 1
    taken.reader.resume()
    os.write(write, b"first")
    await async_until(lambda: taken.content == b"first")

    os.write(write, b"second")
    await thread.run(lambda: None)  # whatever it would have read, it has read now

    assert taken.content == b"first"
    taken.reader.resume()
    await async_until(lambda: taken.content == b"firstsecond")
    os.close(write)
    taken.reader.close()


async def test_output_that_nobody_wants_any_more_stays_for_the_next_engine() -> None:
    thread, (read, write) = PipeThread(), os.pipe()
    kept = os.dup(read)
    taken = Taken(thread, read)
    taken.reader.resume()
    await thread.run(lambda: None)  # it waits for output now
    taken.reader.pause()

    os.write(write, b"between")
    await thread.run(lambda: None)
    taken.reader.close()
    await thread.run(lambda: None)

    assert (os.read(kept, 100), taken.content) == (b"between", b"")
    os.close(kept)
    os.close(write)


async def test_a_thread_ends_with_its_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    # Without pipes it would end by itself, but only long after this test has given up.
    monkeypatch.setattr("sbx_jupyter.engine.live.pipes._IDLE", 600.0)
    before = len(os.listdir("/proc/self/fd"))
    thread, (read, write) = PipeThread(), os.pipe()
    taken = Taken(thread, read)
    taken.reader.resume()
    await thread.run(lambda: None)

    thread.stop()
    taken.reader.close()

    os.close(write)
    await async_until(lambda: len(os.listdir("/proc/self/fd")) == before)


async def test_draining_delivers_what_is_there_and_ends() -> None:
    thread, (read, write) = PipeThread(), os.pipe()
    os.write(write, b"there")
    taken = Taken(thread, read)

    taken.reader.drain()
    await async_until(lambda: taken.has_ended)

    assert taken.content == b"there"
    with pytest.raises(BrokenPipeError):
        os.write(write, b"x")
    os.close(write)


async def test_closing_delivers_nothing_more() -> None:
    thread, (read, write) = PipeThread(), os.pipe()
    taken = Taken(thread, read)
    taken.reader.resume()
    taken.reader.close()
    await thread.run(lambda: None)

    assert (taken.content, taken.has_ended) == (b"", False)
    with pytest.raises(BrokenPipeError):
        os.write(write, b"x")
    os.close(write)


async def test_input_larger_than_a_pipe_is_written_as_it_is_read() -> None:
    thread, (read, write) = PipeThread(), os.pipe()
    os.set_blocking(write, False)
    writer, content = InputWriter(write, thread), os.urandom(3 * CAPACITY)
    taken = Taken(PipeThread(), read)
    taken.reader.resume()

    await writer.write(content)
    writer.close()
    await async_until(lambda: taken.has_ended)

    assert taken.content == content


@pytest.mark.skipif(os.geteuid() != 0, reason="holding a pipe by its memory needs root")
async def test_a_program_that_holds_its_pipe_holds_up_nobody_else() -> None:
    number = {"x86_64": "323", "aarch64": "282"}[platform.machine()]
    command = [sys.executable, "-c", _HOLD, number]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as hostile:
        assert hostile.stdout is not None
        wchan = Path(f"/proc/{hostile.pid}/wchan")
        until(lambda: "userfault" in wchan.read_text() or hostile.poll() is not None)
        if hostile.poll() is not None:
            pytest.skip("this kernel lets no program wait for its own memory")
        try:
            held = Taken(PipeThread(), os.dup(hostile.stdout.fileno()))
            held.reader.resume()

            read, write = os.pipe()
            other = Taken(PipeThread(), read)
            other.reader.resume()
            os.write(write, b"alive")
            await async_until(lambda: other.content == b"alive")

            held.reader.close()
            os.close(write)
            await async_until(lambda: other.has_ended)
        finally:
            hostile.kill()
    await asyncio.sleep(0)
