"""Requests from the agent of a Landlock sandbox to its keeper, over a SEQPACKET socket.

Each request is one message with two descriptors: what it is about, and a pipe for the answer. The
keeper answers with ``DONE`` or with the number of an error, or closes the pipe.
"""

from __future__ import annotations

import errno
import struct
from typing import Final

PROGRAM: Final = b"+"
"""The descriptor is the listener of a new program's filter."""
CONNECT: Final = b"c"
"""The descriptor is the far end of a connection to a port inside."""
LISTEN: Final = b"l"
"""The descriptor takes the connections to a port, each as a descriptor."""
DONE: Final = b"1"

_LAYOUT: Final = "!cH"
SIZE: Final = struct.calcsize(_LAYOUT)


def request(kind: bytes, port: int = 0) -> bytes:
    """The message of a request."""
    return struct.pack(_LAYOUT, kind, port)


def parse(raw: bytes) -> tuple[bytes, int]:
    """Kind and port of a request. Raises ``OSError`` for anything else."""
    if len(raw) != SIZE:
        raise OSError(errno.EINVAL, "no request to a keeper")
    kind, port = struct.unpack(_LAYOUT, raw)
    return kind, port


def refusal(error: OSError) -> bytes:
    """The answer that something failed."""
    return b"%d" % -(error.errno or errno.EINVAL)
