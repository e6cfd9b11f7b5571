"""The Ethernet switch between a run's machines: each QEMU's NIC is a datagram socket, each datagram one Ethernet frame.

The switch learns no addresses: the last byte of a machine's MAC address is the machine's number.
"""

from __future__ import annotations

import selectors
import socket
import threading

FRAME_MAX = 65536
MAC_PREFIX = bytes((0x52, 0x54, 0x00, 0x4C, 0x4F))


def mac(machine: int) -> str:
    return ":".join(f"{byte:02x}" for byte in MAC_PREFIX + bytes((machine,)))


class Switch(threading.Thread):
    """Forwards frames until the process ends. A frame whose receiver has no buffer space is dropped, as on a real
    network."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self._ports: dict[int, socket.socket] = {}

    def port(self, machine: int) -> socket.socket:
        """Makes a port for a machine, before start(); returns the end of the socket pair that QEMU inherits."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        for end in (ours, theirs):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)
        ours.setblocking(False)
        self._ports[machine] = ours
        return theirs

    def run(self) -> None:
        selector = selectors.DefaultSelector()
        for machine, end in self._ports.items():
            selector.register(end, selectors.EVENT_READ, machine)
        while True:
            for key, _ in selector.select():
                self._forward(key.data, self._ports[key.data])

    def _forward(self, source: int, end: socket.socket) -> None:
        for _ in range(64):  # at most 64 frames of this port, so that the other ports have their turn
            try:
                frame = end.recv(FRAME_MAX)
            except OSError:  # the port has no further frame, or its machine has ended
                return
            if frame[:5] == MAC_PREFIX:
                self._send(frame[5], frame)
            else:
                for machine in self._ports:
                    if machine != source:
                        self._send(machine, frame)

    def _send(self, machine: int, frame: bytes) -> None:
        try:
            if machine in self._ports:
                self._ports[machine].send(frame)
        except OSError:
            pass
