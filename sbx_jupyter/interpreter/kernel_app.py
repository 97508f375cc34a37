"""The application of a forked kernel: that of ipykernel, without waits that nothing needs here."""

from __future__ import annotations

import gc
from typing import Any, Final

from ipykernel.iostream import OutStream
from ipykernel.kernelapp import IPKernelApp
from traitlets import DottedObjectName

SETTINGS: Final[dict[str, dict[str, Any]]] = {
    # A database in the home directory, of what no prompt will ever offer again.
    "HistoryManager": {"enabled": False},
    # ipykernel sleeps before each reply, so that clients that look at nothing else have the output
    # before. Ours reads the output up to its end, which comes by the channel of the output.
    "Kernel": {"_execute_sleep": 0},
}
"""The configuration of each kernel."""


class Output(OutStream):
    """Standard output or error of a kernel; a flush of nothing waits for no other thread.

    ipykernel flushes both several times for each code that runs.
    """

    _is_unsent = False

    def write(self, string: str) -> int | None:
        """Write text; it is sent with the next flush, at the latest after 0.2 s."""
        written = super().write(string)
        # Afterwards, so that a flush of another thread cannot take the note for an earlier text.
        self._is_unsent = True
        return written

    def flush(self) -> None:
        """Return when all is sent that this thread has written."""
        if self._is_unsent:
            self._is_unsent = False
            super().flush()


class KernelApp(IPKernelApp):
    """A kernel whose requests reach its main thread directly."""

    outstream_class = DottedObjectName(f"{__name__}.Output")

    def initialize(self, argv: Any = None) -> None:
        """Make the kernel and its shell."""
        # Nearly all that is made stays: to look for garbage among it again and again is in vain.
        gc.disable()
        super().initialize(argv)  # pyright: ignore[reportUnknownMemberType] - untyped there

    def init_kernel(self) -> None:
        """Make the kernel, whose shell has run nothing of the user yet."""
        super().init_kernel()
        gc.enable()

    def init_control(self, context: Any) -> None:
        """Make the control channel, and do without the thread of subshells.

        Each request and each reply would pass through it, and no client of ours has subshells.
        """
        super().init_control(context)  # pyright: ignore[reportUnknownMemberType] - untyped there
        self.shell_channel_thread = None
