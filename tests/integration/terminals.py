"""Runs a command in a pseudo-terminal and reads what it shows."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence

#: Time for a command to show what a test waits for.
TIMEOUT_S = 60.0

_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class TerminalProcess:
    """A process whose standard streams are a pseudo-terminal. A context manager: it is killed at the end.

    Args:
        command: program and arguments.
        environment: variables that are added.
        columns: width of the terminal.
        stdout: where standard output goes, if not to the terminal.
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        *,
        columns: int = 80,
        rows: int = 24,
        stdout: int | None = None,
    ) -> None:
        self._master, terminal = pty.openpty()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        try:
            self.popen = subprocess.Popen(
                command,
                stdin=terminal,
                stdout=terminal if stdout is None else stdout,
                stderr=terminal,
                env={**os.environ, "TERM": "xterm-256color", **environment},
                start_new_session=True,
                # A terminal sends the signal of Ctrl-C to the session that it controls.
                preexec_fn=lambda: fcntl.ioctl(2, termios.TIOCSCTTY, 0) and None,  # noqa: PLW1509 - one system call
            )
        finally:
            os.close(terminal)
        self._received = ""

    @property
    def shown(self) -> str:
        """All that has been shown, without escape sequences."""
        return _ESCAPE.sub("", self._received)

    def read_until(self, text: str) -> None:
        """Reads until the text has been shown. Fails if the process ends or time runs out before."""
        deadline_s = time.monotonic() + TIMEOUT_S
        while text not in self.shown:
            assert time.monotonic() < deadline_s, f"no {text!r} in {self.shown!r}"
            assert self._read(), f"ended without {text!r}: {self.shown!r}"

    def read_to_end(self) -> int:
        """Reads until the process has ended. Returns its exit status."""
        deadline_s = time.monotonic() + TIMEOUT_S
        while self._read():
            assert time.monotonic() < deadline_s, f"does not end: {self.shown!r}"
        return self.popen.wait(TIMEOUT_S)

    def type(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def _read(self) -> bool:
        """Reads what has been shown, and waits for it at most a second. Returns False at the end."""
        ready, _, _ = select.select([self._master], [], [], 1.0)
        if not ready:
            return True
        try:
            data = os.read(self._master, 65536)
        except OSError:  # Linux reports the end of the last process of a terminal by EIO
            return False
        self._received += data.decode(errors="replace")
        return bool(data)

    def __enter__(self) -> TerminalProcess:
        return self

    def __exit__(self, *_: object) -> None:
        if self.popen.poll() is None:
            self.popen.kill()
        self.popen.wait()
        os.close(self._master)
