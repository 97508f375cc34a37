"""The address of kernels passes bytes on: both ways, without keeping them, cut when cut."""

from __future__ import annotations

import logging
import os
import socket
import threading

import pytest

from sbx_jupyter.errors import UnavailableError
from sbx_jupyter.server.deployments.relay import Relay

LARGE = 64 * 1024 * 1024


@pytest.fixture
def listener():
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(30)
        yield server


@pytest.fixture
def relay(listener):
    made = Relay(lambda fresh: listener.getsockname(), log=logging.getLogger("relay"))
    made.start()
    yield made
    made.stop()


def send_until_full(server):
    sent = 0
    while sent < LARGE:
        try:
            sent += server.send(bytes(1024 * 1024))
        except TimeoutError:
            break
    return sent


def connect(relay):
    port = int(relay.url.rpartition(":")[2])
    return socket.create_connection(("127.0.0.1", port), timeout=30)


def test_one_that_is_stopped_at_once_has_ended(listener):
    for _ in range(50):
        made = Relay(lambda fresh: listener.getsockname(), log=logging.getLogger("relay"))
        made.start()
        made.stop()

        assert "sbx-relay" not in {thread.name for thread in threading.enumerate()}


def test_bytes_pass_both_ways_and_the_end_of_requests_is_passed_on(relay, listener):
    with connect(relay) as client:
        client.sendall(b"question")
        client.shutdown(socket.SHUT_WR)
        server, _ = listener.accept()
        with server:
            assert server.recv(100, socket.MSG_WAITALL) == b"question"
            server.sendall(b"answer")
        assert client.recv(100, socket.MSG_WAITALL) == b"answer"


def test_a_slow_reader_stops_the_writer(relay, listener):
    with connect(relay) as client:
        client.sendall(b".")
        server, _ = listener.accept()
        server.settimeout(2)
        with server:
            sent = send_until_full(server)
        assert 0 < sent < LARGE / 2


def test_a_reset_is_passed_on(relay, listener):
    with connect(relay) as client:
        client.sendall(b".")
        server, _ = listener.accept()
        server.recv(1)
        server.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        server.close()

        with pytest.raises(ConnectionResetError):
            client.recv(1)


def test_an_address_that_refuses_is_looked_for_again(listener):
    with socket.create_server(("127.0.0.1", 0)) as gone:
        former = gone.getsockname()
    relay = Relay(
        lambda fresh: listener.getsockname() if fresh else former, log=logging.getLogger("relay")
    )
    relay.start()
    try:
        with connect(relay) as client:
            client.sendall(b"question")
            server, _ = listener.accept()
            with server:
                assert server.recv(100) == b"question"
    finally:
        relay.stop()


def test_an_address_that_cannot_be_found_is_told_as_503():
    def find(fresh):
        raise UnavailableError("no engine today")

    relay = Relay(find, log=logging.getLogger("relay"))
    relay.start()
    try:
        with connect(relay) as client:
            client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            answer = b"".join(iter(lambda: client.recv(4096), b""))
    finally:
        relay.stop()

    assert answer.startswith(b"HTTP/1.1 503 ")
    assert b"no engine today" in answer


def test_a_stopped_relay_closes_its_connections_and_its_thread(relay, listener):
    with connect(relay) as client:
        client.sendall(b".")
        server, _ = listener.accept()
        with server:
            assert server.recv(1) == b"."
            relay.stop()

            assert client.recv(1) == b""
    assert "sbx-relay" not in [thread.name for thread in threading.enumerate()]


def test_a_stopped_relay_leaves_no_socket_to_a_server_that_does_not_read(relay, listener):
    with connect(relay) as client:
        client.settimeout(2)
        server, _ = listener.accept()
        with server:
            send_until_full(client)
            before = len(os.listdir("/proc/self/fd"))
            relay.stop()

            assert len(os.listdir("/proc/self/fd")) <= before - 2  # both sides of the relay
