"""Breaks off a pull, whose thread may wait for a registry that never answers."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import threading


class CurrentConnection:
    """The connection that a pull uses now, which another thread may break."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._copy: socket.socket | None = None
        self._is_ended = False

    def use(self, sock: socket.socket) -> socket.socket:
        """Note a new connection; raises ``OSError`` after ``end``."""
        with self._lock:
            if self._is_ended:
                sock.close()
                raise OSError(errno.ECANCELED, os.strerror(errno.ECANCELED))
            self._close_copy()
            # TLS takes the descriptor away from its socket.
            self._copy = sock.dup()
        return sock

    def end(self) -> None:
        """Break the connection, and allow no more."""
        with self._lock:
            self._is_ended = True
            if self._copy is not None:
                with contextlib.suppress(OSError):
                    self._copy.shutdown(socket.SHUT_RDWR)
            self._close_copy()

    def _close_copy(self) -> None:
        if self._copy is not None:
            self._copy.close()
            self._copy = None
