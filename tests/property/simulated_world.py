"""SimulatedWorld: the real entrypoints of the services with simulated surroundings.

It replaces clocks, random numbers, sockets, child processes, ZooKeeper's client and threads during a simulation. The
code between them is the production code. Each process sees the clock and network of its own host.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import os
import secrets
import socket
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import kazoo.client
from simulated_processes import CURRENT, ProcessKilled, ProcessLoop, SimulatedProcess
from simulated_rpc import HostNetwork, SimulatedRpcClient, SimulatedRpcServer
from simulated_threads import SimulatedThreading, SimulatedTime
from simulated_zookeeper import SimulatedZooKeeper
from simulated_zookeeper_client import SimulatedZooKeeperClient

from flinkpy.common import child_process, clock, process, working_directory
from flinkpy.common.child_process import ProcessEnding
from flinkpy.common.configuration import Configuration
from flinkpy.common.private_directory import PrivateDirectory
from flinkpy.rpc import client, endpoint, server

#: Modules that services import at their start. They must be loaded before names in them are replaced.
_MODULES = (
    "flinkpy.dispatcher.entrypoint",
    "flinkpy.resourcemanager.entrypoint",
    "flinkpy.jobmaster.entrypoint",
    "flinkpy.taskexecutor.task_executor",
    "flinkpy.highavailability.services",
    "flinkpy.highavailability.zookeeper.services",
    "flinkpy.highavailability.file_checkpoint_stores",
)
#: Modules in which blocking calls wait.
_BLOCKING = ("flinkpy.highavailability.", "flinkpy.checkpoint.", "flinkpy.jobmaster.", "flinkpy.dispatcher.")

_initialize_working_directory = working_directory.WorkingDirectory.__init__
_close_working_directory = working_directory.WorkingDirectory.close
#: The host of all servers of ZooKeeper.
ZOOKEEPER = "zookeeper"


class SimulatedWorld:
    """The machine under all hosts."""

    def __init__(self, loop: ProcessLoop, random: Random, directory: Path) -> None:
        self.loop = loop
        self.random = random
        #: The random numbers of processes. They are separate, so that draws during imports do not change the run.
        self.entropy = Random(random.getrandbits(64))
        self.directory = directory
        self.network = HostNetwork(loop, random)
        self.zookeeper = SimulatedZooKeeper(loop, random)
        self._threading = SimulatedThreading(loop.time)
        self._time = SimulatedTime(loop.time)
        self.clients: list[tuple[SimulatedProcess, SimulatedZooKeeperClient]] = []
        #: The seconds by which the clock of each host is ahead of the true time. The true time starts at a fixed date.
        self.clock_offset_s: dict[str, float] = {}
        self.processes: dict[str, SimulatedProcess] = {}
        self._num_pids = 100
        self._locks: dict[Path, SimulatedProcess] = {}
        self._directories: list[working_directory.WorkingDirectory] = []
        self.zookeeper_timeout_s = 4.0
        #: Probability that a process dies when it makes something durable.
        self.fsync_death = 0.0
        #: True if a child ends with its parent.
        self.children_die_with_parent = True
        self.on_fatal: Callable[[BaseException], None] = self.network.errors.append

    def new_process(self, name: str, host: str) -> SimulatedProcess:
        self._num_pids += 1
        made = SimulatedProcess(self.loop, name, host, self._num_pids)
        self.processes[name] = made
        return made

    def connect_zookeeper(self) -> None:
        """Connects to ZooKeeper if this process can reach its servers."""
        for of, made in self.clients:
            if not of.is_dead and self.network.connects(of.host, ZOOKEEPER) == made.is_cut:
                (made.heal if made.is_cut else made.cut)()

    def heal(self) -> None:
        """Ends all faults of hosts."""
        self.zookeeper.start()
        for of, made in self.clients:
            if not of.is_dead:
                made.fault_probability = 0.0
                made.heal()
        self.fsync_death = 0.0

    # Services of the machine for its processes

    def now_s(self) -> float:
        of = CURRENT.get()
        offset_s = 0.0 if of is None else self.clock_offset_s.get(of.host, 0.0)
        return 1_700_000_000.0 + self.loop.time() + offset_s

    def _kazoo_client(self, *_: Any, timeout: float = 10.0, **__: Any) -> SimulatedZooKeeperClient:
        of = CURRENT.get()
        assert of is not None
        made = SimulatedZooKeeperClient(self.zookeeper, self.loop, self.random, timeout, context=of.context.copy())
        made.is_slow_to_notice = self.random.random() < 0.3
        if not self.network.connects(of.host, ZOOKEEPER):
            made.cut()
        of.at_exit.append(made.die)
        self.clients.append((of, made))
        return made

    async def _spawn_child(self, command: Sequence[str], *, name: str, **_: Any) -> SimulatedChild:
        parent = CURRENT.get()
        assert parent is not None
        words = list(command)
        arguments = words[words.index("jobmaster") + 1 :]
        entries, options = {}, {}
        for flag, value in pairwise(arguments):
            if flag == "-D":
                key, _, setting = value.partition("=")
                entries[key] = setting
            elif flag.startswith("--"):
                options[flag] = value
        await asyncio.sleep(self.random.uniform(0.1, 0.5))
        made = self.new_process(f"{parent.name}/{name}.{self._num_pids}", parent.host)
        child = SimulatedChild(made, name, self.loop)
        if self.children_die_with_parent:
            parent.at_exit.append(made.kill)

        def main() -> Any:
            from flinkpy.jobmaster.entrypoint import run_jobmaster

            return run_jobmaster(Configuration.from_dict(entries), dispatcher_address=options["--dispatcher"])

        made.start(main)
        return child

    def _try_lock(self, directory: PrivateDirectory) -> int | None:
        """Locks the directory. The lock ends with its process."""
        path = directory.path
        owner = self._locks.get(path)
        if owner is not None and not owner.is_dead:
            return None
        of = CURRENT.get()
        assert of is not None
        self._locks[path] = of
        return directory.open_file(".lock", os.O_RDWR | os.O_CREAT)

    @property
    def _initialize_directory(self) -> Any:
        def initialize(of: working_directory.WorkingDirectory, *arguments: Any, **rest: Any) -> None:
            _initialize_working_directory(of, *arguments, **rest)
            self._directories.append(of)

        return initialize

    @property
    def _closing_directory(self) -> Any:
        return lambda of: self._close_directory(of)  # noqa: PLW0108 - a function, to become a method

    def _close_directory(self, of: working_directory.WorkingDirectory) -> None:
        """Closes the directory once, because its descriptor may belong to another process later."""
        if of._lock >= 0:
            self._locks.pop(of.path, None)
            _close_working_directory(of)
            of._lock = -1

    def _fsync(self, descriptor: int) -> None:
        of = CURRENT.get()
        if of is not None and not of.is_dead and self.random.random() < self.fsync_death:
            self.network.trace.note("dies in fsync", of.name)
            of.kill()
            raise ProcessKilled

    @contextmanager
    def installed(self) -> Iterator[None]:
        for name in _MODULES:
            try:
                importlib.import_module(name)
            except ModuleNotFoundError as error:
                if error.name != name and not name.startswith(str(error.name)):
                    raise
        world = self

        class SeededRandom(Random):
            def __init__(self, seed: Any = None) -> None:
                super().__init__(world.entropy.getrandbits(64) if seed is None else seed)

        class Client(SimulatedRpcClient):
            network = world.network

        class Server(SimulatedRpcServer):
            network = world.network

        replaced: dict[int, tuple[Any, Any]] = {
            id(original): (original, replacement)
            for original, replacement in (
                (client.RpcClient, Client),
                (server.RpcServer, Server),
                (child_process.spawn_child, self._spawn_child),
                (process.announce_ready, lambda *_, **__: None),
                (Random, SeededRandom),
                (kazoo.client.KazooClient, self._kazoo_client),
            )
        }
        undo: list[tuple[Any, str, Any]] = []

        def replace(owner: Any, name: str, value: Any) -> None:
            undo.append((owner, name, owner.__dict__[name]))
            setattr(owner, name, value)

        for module in [module for name, module in sys.modules.items() if name.startswith("flinkpy.")]:
            for name, value in list(vars(module).items()):
                found = replaced.get(id(value))
                if found is not None and value is found[0]:
                    replace(module, name, found[1])
        replace(kazoo.client, "KazooClient", self._kazoo_client)
        for module in [module for name, module in sys.modules.items() if name.startswith(_BLOCKING)]:
            for name, value in (("threading", self._threading), ("time", self._time)):
                if inspect.ismodule(vars(module).get(name)):
                    replace(module, name, value)
        replace(clock.SystemClock, "now_ms", lambda _: round(self.now_s() * 1000))
        replace(clock.SystemClock, "monotonic_ms", lambda _: round(self.loop.time() * 1000))
        replace(clock.SystemClock, "monotonic_ns", lambda _: round(self.loop.time() * 1_000_000_000))
        replace(endpoint, "_log_unexpected", self._unexpected)
        replace(working_directory, "_try_lock", self._try_lock)
        replace(working_directory.WorkingDirectory, "__init__", self._initialize_directory)
        replace(working_directory.WorkingDirectory, "close", self._closing_directory)
        replace(secrets, "token_hex", lambda size=32: f"{self.entropy.getrandbits(8 * size):0{2 * size}x}")
        replace(secrets, "token_bytes", lambda size=32: self.entropy.randbytes(size))
        replace(uuid, "uuid4", lambda: uuid.UUID(int=self.entropy.getrandbits(128), version=4))
        replace(socket, "gethostname", lambda: _of_current("host", "nowhere"))
        replace(os, "getpid", lambda real=os.getpid: _of_current("pid", None) or real())
        replace(os, "fsync", self._fsync)
        temporary = self.directory / "tmp"
        temporary.mkdir()
        replace(tempfile, "tempdir", str(temporary))
        try:
            yield
        finally:
            for owner, name, value in reversed(undo):
                setattr(owner, name, value)
            for directory in self._directories:
                self._close_directory(directory)
                directory.close = lambda: None  # type: ignore[method-assign]

    def _unexpected(self, error: BaseException) -> None:
        if not self.loop.is_unwinding:
            self.on_fatal(error)


def _of_current(attribute: str, otherwise: Any) -> Any:
    of = CURRENT.get()
    return otherwise if of is None else getattr(of, attribute)


class SimulatedChild:
    """The parent's view of its child process."""

    def __init__(self, made: SimulatedProcess, name: str, loop: ProcessLoop) -> None:
        self._process = made
        self.name = name
        self.pid = made.pid
        self._ended = asyncio.Event()
        made.at_exit.append(lambda: loop.call_later(0.005, self._ended.set))

    @property
    def has_ended(self) -> bool:
        return self._ended.is_set()

    async def wait(self) -> ProcessEnding:
        await self._ended.wait()
        return ProcessEnding(self._process.exit_status or 0)

    def terminate(self) -> None:
        self._process.terminate()

    def kill(self) -> None:
        self._process.kill()

    async def stop(self, grace_s: float) -> ProcessEnding:
        self.terminate()
        try:
            async with asyncio.timeout(grace_s):
                return await self.wait()
        except TimeoutError:
            self.kill()
            return await self.wait()
