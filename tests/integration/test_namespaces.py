"""Hosts as network namespaces: they reach each other, faults affect their direction only, and nothing remains."""

from __future__ import annotations

import ast
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from job_support import wait_until
from namespaces import Container, Host, Network
from network_switch import Rule

ECHO = """
import socket
server = socket.create_server(("0.0.0.0", 7))
print("is ready now", flush=True)
while True:
    connection, _ = server.accept()
    while got := connection.recv(65536):
        connection.sendall(got)
"""

ECHO_DATAGRAMS = """
import socket
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("0.0.0.0", 9))
print("is ready now", flush=True)
while True:
    got, sender = server.recvfrom(100)
    print(got, flush=True)
    server.sendto(got, sender)
"""


@contextmanager
def echo_on(host: Host) -> Iterator[str]:
    server = host.start(f"echo-{host.name}", [sys.executable, "-c", ECHO])
    server.wait_until_ready()
    yield host.address


def test_hosts_reach_each_other_by_name_and_leave_nothing_behind(network: Network) -> None:
    one, other = network.add_host("one"), network.add_host("other")
    with echo_on(other):
        script = "import socket; c = socket.create_connection(('other', 7)); c.sendall(b'x'); assert c.recv(1) == b'x'"
        done = one.run([sys.executable, "-c", f"{script}; print(socket.gethostname(), c.getsockname()[0])"])
    assert done.stdout.split() == ["one", one.address], done.stderr


def test_a_cut_stops_both_ways_and_healing_lets_what_was_sent_arrive(network: Network) -> None:
    one, other = network.add_own_host("one"), network.add_host("other")
    with echo_on(other) as address, socket.create_connection((address, 7), timeout=10) as connection:
        network.cut(one, other)
        connection.sendall(b"during")
        wait_until(lambda: network.num_dropped() > 1, "packets are lost")
        network.heal()
        assert connection.recv(100) == b"during"


def test_a_one_way_cut_stops_one_direction(network: Network) -> None:
    """The test uses datagrams, because a connection needs both directions."""
    one, other = network.add_own_host("one"), network.add_host("other")
    process = other.start("datagrams", [sys.executable, "-c", ECHO_DATAGRAMS])
    process.wait_until_ready()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as mine:
        mine.settimeout(10)
        network.cut_one_way(other, one)
        mine.sendto(b"no answer", (other.address, 9))
        wait_until(lambda: "no answer" in process.log, "the packet arrives")
        wait_until(lambda: network.counts() == {"other one": {"dropped": 1}}, "its answer is lost")
        network.heal()
        network.cut_one_way(one, other)
        mine.sendto(b"lost", (other.address, 9))
        wait_until(lambda: network.num_dropped() == 2, "the packet is lost")
        network.heal()
        mine.sendto(b"answered", (other.address, 9))
        assert mine.recv(100) == b"answered"
    assert "lost" not in process.log


def test_a_delay_holds_every_packet_back_and_loss_drops_some_packets(network: Network) -> None:
    one, other = network.add_own_host("one"), network.add_host("other")
    with echo_on(other) as address, socket.create_connection((address, 7), timeout=30) as connection:
        network.between(one, other, Rule(delay_ms=100))
        begun_s = time.monotonic()
        connection.sendall(b"slow")
        assert connection.recv(100) == b"slow"
        assert time.monotonic() - begun_s >= 0.2
        network.between(one, other, Rule(loss=0.2))
        sent = os.urandom(2_000_000)
        sender = threading.Thread(target=connection.sendall, args=(sent,))
        sender.start()
        got = bytearray()
        while len(got) < len(sent):
            got += connection.recv(1 << 20)
        sender.join()
    assert got == sent
    assert network.num_dropped() > 10


def test_a_container_can_write_only_to_its_volumes(network: Network, tmp_path: Path) -> None:
    volume, read_only = tmp_path / "volume", tmp_path / "read-only"
    for directory in (volume, read_only):
        directory.mkdir()
        os.chown(directory, 9999, 9999)
    container = Container([(volume, "/var/data", True), (read_only, "/var/config", False)], user=9999)
    script = """
import os
def try_to_write(directory):
    try:
        open(os.path.join(directory, "file"), "w").close()
    except OSError as error:
        return error.strerror
print([(path, try_to_write(path)) for path in ("/", "/etc", "/var", "/var/config", "/var/data", "/tmp")])
print(os.getuid(), os.getpid() < 5, open("/proc/self/status").read().split("CapBnd:")[1].split()[0])
print(os.path.exists("/root/.bashrc"))
"""
    done = network.add_host("one").run([sys.executable, "-c", script], container=container)
    assert done.returncode == 0, done.stderr
    tried, identity, sees_home = done.stdout.splitlines()
    assert ast.literal_eval(tried) == [
        ("/", "Read-only file system"),
        ("/etc", "Read-only file system"),
        ("/var", "Read-only file system"),
        ("/var/config", "Read-only file system"),
        ("/var/data", None),
        ("/tmp", None),
    ]
    assert identity == "9999 True 0000000000000000"
    assert sees_home == "False"
    assert (volume / "file").stat().st_uid == 9999


def test_nothing_is_left_if_the_test_itself_is_killed(tmp_path: Path) -> None:
    """Processes end too, although their parent had no time to end them."""
    script = f"""
import sys
sys.path[:0] = {[str(path) for path in (Path(__file__).parent, Path(__file__).parents[1])]!r}
from pathlib import Path
from namespaces import Network
network = Network(Path({str(tmp_path)!r})).__enter__()
network.add_own_host("own")
process = network.add_host("one").start("sleeper", ["sh", "-c", "sleep 1000 & sleep 1000"])
print(network._switch.pid, process.popen.pid, flush=True)
input()
"""
    popen = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert popen.stdin is not None
    assert popen.stdout is not None
    pids = [int(pid) for pid in popen.stdout.readline().split()]
    processes = [psutil.Process(pid) for pid in pids]
    sleeper = processes[1]
    wait_until(lambda: len(sleeper.children(recursive=True)) == 4, "the sleepers sleep")
    processes += sleeper.children(recursive=True)
    popen.kill()
    popen.communicate()
    _, alive = psutil.wait_procs(processes, timeout=30)
    assert alive == []
    assert [name for name in psutil.net_if_addrs() if name.startswith("fp")] == []


@pytest.mark.parametrize("user", [None, 9999])
def test_a_stopped_host_resumes_unchanged(network: Network, user: int | None) -> None:
    one = network.add_host("one")
    script = "import time\nprint(' ready ', flush=True)\nwhile True:\n time.sleep(0.01); print('x', flush=True)"
    process = one.start("writer", [sys.executable, "-c", script], container=Container(user=user))
    process.wait_until_ready()
    process.pause()
    before = process.log
    process.resume()
    wait_until(lambda: len(process.log) > len(before), "the host resumes")
    assert process.terminate() == 128 + 15
