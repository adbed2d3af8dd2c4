"""A program that simulates a network: each host is a network namespace, and this process forwards each packet.

Commands are lines of JSON on standard input. The program answers each command with one line. Faults are rules for one
direction between two hosts: cut, delay with jitter, loss. The kernel's `netem` does the same, but many kernels lack it,
and here the seed determines the lost packets.

Namespaces and devices belong to this process and have no names outside of it, so they disappear when it ends in any
way. It ends with its standard input.
"""

from __future__ import annotations

import ctypes
import fcntl
import heapq
import itertools
import json
import os
import random
import selectors
import struct
import subprocess
import sys
import time
from collections import Counter, defaultdict
from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import Any

_CLONE_NEWNET = 0x40000000
_TUNSETIFF = 0x400454CA
_IFF_TUN, _IFF_NO_PI = 0x0001, 0x1000
#: The packet size, larger than Ethernet's, because the cost is per packet.
MTU = 9000
#: The most packets in flight on one delayed link. Further packets are lost, as in a router.
MAX_QUEUED = 10_000

_libc = ctypes.CDLL(None, use_errno=True)


@dataclass
class Rule:
    """The fate of packets from one host to another."""

    is_cut: bool = False
    delay_ms: float = 0.0
    jitter_ms: float = 0.0
    loss: float = 0.0


class Switch:
    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._selector = selectors.DefaultSelector()
        self._own_namespace = os.open("/proc/self/ns/net", os.O_RDONLY)
        #: Both maps have the address bytes of packets as keys.
        self._devices: dict[bytes, int] = {}
        self._names: dict[bytes, str] = {}
        self._addresses: dict[str, bytes] = {}
        self._rules: dict[tuple[bytes, bytes], Rule] = {}
        self._delayed: list[tuple[float, int, bytes, int]] = []
        self._order = itertools.count()
        self._counts: defaultdict[str, Counter[str]] = defaultdict(Counter)

    def run(self) -> None:
        """Runs until the standard input ends."""
        os.set_blocking(0, False)
        self._selector.register(0, selectors.EVENT_READ)
        unread = b""
        while True:
            timeout_s = None if not self._delayed else max(0.0, self._delayed[0][0] - time.monotonic())
            for key, _ in self._selector.select(timeout_s):
                if key.fd != 0:
                    self._receive(key.fd)
                    continue
                got = os.read(0, 65536)
                if not got:
                    return
                *lines, unread = (unread + got).split(b"\n")
                for line in lines:
                    self._answer(line)
            self._send_what_is_due()

    # --- packets

    def _receive(self, device: int) -> None:
        for _ in range(64):
            try:
                packet = os.read(device, MTU)
            except BlockingIOError:
                return
            # The source and destination of an IPv4 packet. Other packets are not forwarded.
            if packet[0] >> 4 == 4:
                self._forward(packet[12:16], packet[16:20], packet)

    def _forward(self, source: bytes, destination: bytes, packet: bytes) -> None:
        device = self._devices.get(destination)
        if device is None:
            return
        rule = self._rules.get((source, destination))
        if rule is None:
            self._write(device, packet)
            return
        counts = self._counts[f"{self._names[source]} {self._names[destination]}"]
        if rule.is_cut or (rule.loss and self._random.random() < rule.loss):
            counts["dropped"] += 1
            return
        if not rule.delay_ms:
            self._write(device, packet)
            return
        if len(self._delayed) >= MAX_QUEUED:
            counts["dropped"] += 1
            return
        counts["delayed"] += 1
        delay_ms = max(0.0, rule.delay_ms + self._random.uniform(-rule.jitter_ms, rule.jitter_ms))
        heapq.heappush(self._delayed, (time.monotonic() + delay_ms / 1000, next(self._order), packet, device))

    def _send_what_is_due(self) -> None:
        now_s = time.monotonic()
        while self._delayed and self._delayed[0][0] <= now_s:
            _, _, packet, device = heapq.heappop(self._delayed)
            # A packet sent before a cut does not arrive after it.
            rule = self._rules.get((packet[12:16], packet[16:20]))
            if rule is None or not rule.is_cut:
                self._write(device, packet)

    @staticmethod
    def _write(device: int, packet: bytes) -> None:
        try:
            os.write(device, packet)
        except OSError:
            return  # the receiver's queue is full: the packet is lost, as in any network

    # --- commands

    def _answer(self, line: bytes) -> None:
        order = json.loads(line)
        try:
            result = getattr(self, f"do_{order.pop('do')}")(**order)
            answer = {"result": result}
        except (OSError, subprocess.CalledProcessError) as error:
            told = getattr(error, "stderr", None)
            answer = {"error": f"{error}: {told}" if told else str(error)}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()

    def do_host(self, name: str, address: str, prefix: int, device: str, is_own: bool) -> int:
        """Adds a host. `is_own` puts its device into the original namespace of this process.

        Returns:
            The descriptor of its namespace. Other processes open it below /proc.
        """
        try:
            if not is_own:
                _check(_libc.unshare(_CLONE_NEWNET))
            namespace = os.open("/proc/self/ns/net", os.O_RDONLY)
            tun = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
            fcntl.ioctl(tun, _TUNSETIFF, struct.pack("16sH22x", device.encode(), _IFF_TUN | _IFF_NO_PI))
            if not is_own:
                _ip("link", "set", "lo", "up")
            _ip("addr", "add", f"{address}/{prefix}", "dev", device)
            _ip("link", "set", device, "mtu", str(MTU), "txqueuelen", "1000", "up")
        finally:
            _check(_libc.setns(self._own_namespace, _CLONE_NEWNET))
        key = IPv4Address(address).packed
        self._devices[key], self._names[key], self._addresses[name] = tun, name, key
        self._selector.register(tun, selectors.EVENT_READ)
        return namespace

    def do_rule(self, source: str, destination: str, **rule: Any) -> None:
        self._rules[self._addresses[source], self._addresses[destination]] = Rule(**rule)

    def do_heal(self) -> None:
        self._rules.clear()

    def do_counts(self) -> dict[str, dict[str, int]]:
        """Returns the numbers of `dropped` and `delayed` packets by "from to"."""
        return {pair: dict(counts) for pair, counts in self._counts.items()}


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)


def _check(status: int) -> None:
    if status != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


if __name__ == "__main__":
    Switch(int(sys.argv[1])).run()
