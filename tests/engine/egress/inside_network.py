"""Runs in a sandbox: tries to reach addresses in every way that sockets offer; prints JSON.

``reach PORT ADDRESS...`` says what answered, by way and address. ``rights`` says which of the calls
that would change the network went through.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import select
import socket
import struct
import sys
import time

PATIENCE = 4.0
BIND = 25  # SO_BINDTODEVICE
UNICAST_IF, PKTINFO, OPTIONS, FREEBIND, TRANSPARENT = 50, 8, 4, 15, 19
TAP = b"tap0\0"


def plain(sock, address):
    pass


def bound(sock, address):
    sock.setsockopt(socket.SOL_SOCKET, BIND, TAP)


def bound_index(sock, address):
    sock.setsockopt(socket.SOL_SOCKET, 62, struct.pack("i", socket.if_nametoindex("tap0")))


def unicast_interface(sock, address):
    index = socket.if_nametoindex("tap0")
    sock.setsockopt(socket.IPPROTO_IP, UNICAST_IF, struct.pack("!i", index))


def dont_route(sock, address):
    bound(sock, address)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_DONTROUTE, 1)


def source_route(sock, address):
    """By way of a host that is allowed."""
    hops = socket.inet_aton("20.0.0.10") + socket.inet_aton(address)
    sock.setsockopt(socket.IPPROTO_IP, OPTIONS, bytes([131, 3 + len(hops), 4]) + hops + b"\0")


def other_source(sock, address):
    sock.setsockopt(socket.IPPROTO_IP, FREEBIND, 1)
    sock.bind(("10.99.0.77", 0))


WAYS = (plain, bound, bound_index, unicast_interface, dont_route, source_route, other_source)


def reach(port: int, addresses: list[str]) -> dict[str, list[str]]:
    waiting: dict[socket.socket, str] = {}
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        for way in WAYS:
            for address in addresses:
                family = socket.AF_INET6 if ":" in address else socket.AF_INET
                sock = socket.socket(family, kind)
                sock.setblocking(False)
                name = f"{'tcp' if kind == socket.SOCK_STREAM else 'udp'} {way.__name__} {address}"
                with contextlib.suppress(OSError):
                    way(sock, address)
                    with contextlib.suppress(BlockingIOError):
                        sock.connect((address, port))
                    if kind == socket.SOCK_DGRAM:
                        sock.send(b"anybody")
                        packet_info(sock, address, port)
                    waiting[sock] = name
    reached: set[str] = set()
    deadline = time.monotonic() + PATIENCE
    while waiting and (left := deadline - time.monotonic()) > 0:
        streams = [s for s in waiting if s.type == socket.SOCK_STREAM]
        readable, writable, _ = select.select(list(waiting), streams, [], left)
        for sock in {*readable, *writable}:
            name = waiting.pop(sock)
            if sock.type == socket.SOCK_DGRAM:
                with contextlib.suppress(OSError):
                    sock.recv(100)
                    reached.add(name)
            elif sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0:
                reached.add(name)
    return {"reached": sorted(reached)}


def packet_info(sock, address, port):
    info = struct.pack("i8x", socket.if_nametoindex("tap0"))
    with contextlib.suppress(OSError):
        sock.sendmsg([b"anybody"], [(socket.IPPROTO_IP, PKTINFO, info)])


def rights() -> dict[str, list[str]]:
    done: list[str] = []
    for name, attempt in ATTEMPTS.items():
        with contextlib.suppress(OSError):
            attempt()
            done.append(name)
    return {"done": done}


def udp() -> socket.socket:
    return socket.socket(socket.AF_INET, socket.SOCK_DGRAM)


def set_flags():
    fcntl.ioctl(udp(), 0x8914, struct.pack("16sh22x", TAP, 0x1 | 0x80))  # UP, NOARP


def set_address():
    value = struct.pack("16sHH4s16x", TAP, socket.AF_INET, 0, socket.inet_aton("10.99.0.9"))
    fcntl.ioctl(udp(), 0x8916, value)


def add_route():
    anywhere = struct.pack("HH4s8x", socket.AF_INET, 0, b"\0" * 4)
    gateway = struct.pack("HH4s8x", socket.AF_INET, 0, socket.inet_aton("10.0.2.2"))
    route = struct.pack(
        "Q16s16s16sHhxxxxQQhxxxxxxQQQHxxxxxx", 0, anywhere, gateway, anywhere, 3, *[0] * 8
    )
    fcntl.ioctl(udp(), 0x890B, route)


def netlink(family: int, kind: int, flags: int, payload: bytes) -> None:
    sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, family)
    sock.send(struct.pack("IHHII", 16 + len(payload), kind, flags | 5, 1, 0) + payload)
    answer = sock.recv(4096)
    (error,) = struct.unpack_from("i", answer, 16)
    if error:
        raise OSError(-error, "netlink")


def netlink_route():
    gateway = struct.pack("HH4s", 8, 5, socket.inet_aton("10.0.2.2"))
    netlink(0, 24, 0x400, struct.pack("8BI", 2, 0, 0, 0, 254, 3, 0, 1, 0) + gateway)


def netlink_neighbour():
    index = socket.if_nametoindex("tap0")
    rest = struct.pack("HH4s", 8, 1, socket.inet_aton("10.99.0.1"))
    rest += struct.pack("HH6sxx", 10, 2, b"\x52\x55\x0a\0\x02\x02")
    netlink(0, 28, 0x400, struct.pack("BxxxiHBB", 2, index, 0x80, 0, 1) + rest)


def netlink_link_down():
    index = socket.if_nametoindex("tap0")
    netlink(0, 16, 0, struct.pack("BxHiII", 0, 0, index, 0, 1))


def packet_filter_table():
    netlink(12, 0x0A00, 0x400, struct.pack("BBH", 2, 0, 0) + struct.pack("HH4s", 8, 1, b"x\0\0\0"))


def other_tap():
    os.mknod("/tmp/tun", 0o666 | 0o020000, os.makedev(10, 200))
    fd = os.open("/tmp/tun", os.O_RDWR)
    fcntl.ioctl(fd, 0x400454CA, struct.pack("16sH22x", TAP, 0x1002))


def new_namespace():
    if ctypes.CDLL(None, use_errno=True).unshare(0x10000000 | 0x40000000):
        raise OSError(ctypes.get_errno(), "unshare")


def descriptors_of_the_agent():
    for name in os.listdir("/proc/1/fd"):
        os.readlink(f"/proc/1/fd/{name}")


def write_setting():
    with open("/proc/sys/net/ipv4/ip_forward", "w") as file:
        file.write("1")


ATTEMPTS = {
    "flags": set_flags,
    "address": set_address,
    "route": add_route,
    "netlink route": netlink_route,
    "netlink neighbour": netlink_neighbour,
    "netlink link": netlink_link_down,
    "packet filter": packet_filter_table,
    "packet socket": lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0),
    "raw socket": lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW),
    "transparent": lambda: udp().setsockopt(socket.IPPROTO_IP, TRANSPARENT, 1),
    "mark": lambda: udp().setsockopt(socket.SOL_SOCKET, 36, 7),
    "another interface": other_tap,
    "a new namespace": new_namespace,
    "descriptors of the agent": descriptors_of_the_agent,
    "a setting": write_setting,
}

if __name__ == "__main__":
    if sys.argv[1] == "reach":
        print(json.dumps(reach(int(sys.argv[2]), sys.argv[3:])))
    else:
        print(json.dumps(rights()))
