"""ServiceSupervisor: restarts a service of a local cluster when its process dies.

It learns of a death at once, from the process's pidfd. A service that dies repeatedly is restarted after growing
pauses, and given up after `MAX_DEATHS` deaths. The other services are still supervised.

Thread: its own, which also starts the replacements. The kernel ends a child that dies with its parent when the thread
that started it ends, so this thread lives until all services have been stopped.
"""

from __future__ import annotations

import logging
import os
import selectors
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from flinkpy.client.service_process import ServiceProcess
from flinkpy.common.process import EXIT_CLUSTER_SHUT_DOWN

logger = logging.getLogger(__name__)

#: Deaths of one service within `DEATHS_WINDOW_S` before it is given up.
MAX_DEATHS = 10
DEATHS_WINDOW_S = 60.0
#: Pause before the second restart of a service. It doubles with each recent death.
FIRST_PAUSE_S = 0.2
MAX_PAUSE_S = 10.0


@dataclass(slots=True)
class DeathRecord:
    """Recent deaths of one service. Pure."""

    times_s: list[float] = field(default_factory=list)

    def died(self, now_s: float) -> float | None:
        """Records a death. Returns the pause in seconds before the restart, or None to give up the service."""
        self.times_s = [at for at in self.times_s if now_s - at < DEATHS_WINDOW_S]
        self.times_s.append(now_s)
        if len(self.times_s) > MAX_DEATHS:
            return None
        if len(self.times_s) == 1:
            return 0.0
        return min(FIRST_PAUSE_S * 2 ** (len(self.times_s) - 2), MAX_PAUSE_S)


class ServiceSupervisor:
    """Supervises services from `watch` to `close`.

    Args:
        respawn: starts a replacement for a dead process, or raises OSError. Called on the supervisor's thread.
        on_ready: called with each replacement that is ready, on the supervisor's thread.
        start_timeout_s: time after which a replacement that is not ready is killed.
        on_shut_down: called when a service has ended because the whole cluster ends. Nothing is restarted any more.
    """

    def __init__(
        self,
        respawn: Callable[[ServiceProcess], ServiceProcess],
        on_ready: Callable[[ServiceProcess], None],
        start_timeout_s: float,
        on_shut_down: Callable[[], None] = lambda: None,
    ) -> None:
        self._on_shut_down = on_shut_down
        self._respawn = respawn
        self._on_ready = on_ready
        self._start_timeout_s = start_timeout_s
        self._wake_read, self._wake_write = os.pipe()
        self._lock = threading.Lock()
        self._added: list[ServiceProcess] = []
        self._is_paused = False
        self._is_closing = False
        #: True if a service died so often that it is not restarted.
        self.has_given_up = False
        self._selector = selectors.DefaultSelector()
        self._deaths: dict[str, DeathRecord] = {}
        #: Dead processes with the times of their restarts.
        self._due: list[tuple[float, ServiceProcess]] = []
        #: Replacements that are not ready, with their deadlines.
        self._starting: dict[ServiceProcess, float] = {}
        self._thread = threading.Thread(target=self._run, name="flinkpy-supervisor", daemon=True)
        self._thread.start()

    def watch(self, processes: list[ServiceProcess]) -> None:
        """Supervises these processes from now on."""
        with self._lock:
            self._added.extend(processes)
        self._wake()

    def pause(self) -> None:
        """Stops restarting services. No restart is in progress when this returns."""
        with self._lock:
            self._is_paused = True

    def close(self) -> None:
        """Ends the thread. This also ends the replacements that die with their parent, so stop the services first."""
        self.pause()
        self._is_closing = True
        self._wake()
        self._thread.join()
        os.close(self._wake_read)
        os.close(self._wake_write)

    def _wake(self) -> None:
        os.write(self._wake_write, b"x")

    def _run(self) -> None:
        self._selector.register(self._wake_read, selectors.EVENT_READ, lambda: os.read(self._wake_read, 4096))
        while not self._is_closing:
            for key, _ in self._selector.select(self._seconds_to_next_deadline()):
                key.data()
            with self._lock:
                added, self._added = self._added, []
            for process in added:
                self._watch_exit(process)
            self._replace_due()
            self._kill_overdue()
        for key in list(self._selector.get_map().values()):
            if key.fd != self._wake_read and key.fileobj not in {one.ready_pipe for one in self._starting}:
                os.close(key.fd)
        self._selector.close()

    def _seconds_to_next_deadline(self) -> float | None:
        deadlines = [due_s for due_s, _ in self._due] + list(self._starting.values())
        return max(0.0, min(deadlines) - time.monotonic()) if deadlines else None

    def _watch_exit(self, process: ServiceProcess) -> None:
        descriptor = os.pidfd_open(process.popen.pid)  # always possible for a child that has not been reaped

        def ended() -> None:
            self._selector.unregister(descriptor)
            os.close(descriptor)
            self._ended(process)

        self._selector.register(descriptor, selectors.EVENT_READ, ended)

    def _ended(self, process: ServiceProcess) -> None:
        status = process.popen.wait()
        name = process.spec.name
        if process in self._starting:
            self._started(process)
        if self._is_paused:
            return  # the service was stopped
        if status == EXIT_CLUSTER_SHUT_DOWN:
            logger.info("a client has shut the cluster down")
            self.pause()
            self._on_shut_down()
            return
        now_s = time.monotonic()
        pause_s = self._deaths.setdefault(name, DeathRecord()).died(now_s)
        if pause_s is None:
            self.has_given_up = True
            logger.error("%s died %d times within %g s and is not restarted", name, MAX_DEATHS, DEATHS_WINDOW_S)
            return
        logger.warning("%s (pid %d) ended with status %d", name, process.popen.pid, status)
        self._due.append((now_s + pause_s, process))

    def _replace_due(self) -> None:
        now_s = time.monotonic()
        due = [process for due_s, process in self._due if due_s <= now_s]
        self._due = [(due_s, process) for due_s, process in self._due if due_s > now_s]
        for process in due:
            with self._lock:
                if self._is_paused:
                    return
                try:
                    successor = self._respawn(process)
                except OSError as error:
                    logger.error("%s could not be restarted: %s", process.spec.name, error)
                    self._due.append((now_s + MAX_PAUSE_S, process))
                    continue
            logger.warning("%s has been restarted (pid %d)", successor.spec.name, successor.popen.pid)
            self._starting[successor] = now_s + self._start_timeout_s
            self._selector.register(
                successor.ready_pipe, selectors.EVENT_READ, lambda successor=successor: self._started(successor)
            )
            self._watch_exit(successor)

    def _started(self, successor: ServiceProcess) -> None:
        """Handles the readiness pipe of a replacement: it is ready or, at the end of the pipe, it has died."""
        if successor not in self._starting:
            return  # its exit was handled before
        del self._starting[successor]
        self._selector.unregister(successor.ready_pipe)
        if successor.read_readiness():
            self._on_ready(successor)

    def _kill_overdue(self) -> None:
        now_s = time.monotonic()
        for process, deadline_s in self._starting.items():
            if deadline_s <= now_s:
                logger.error("%s did not become ready within %g s", process.spec.name, self._start_timeout_s)
                process.popen.kill()
                self._starting[process] = now_s + self._start_timeout_s
