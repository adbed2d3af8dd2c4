"""Runs several commands at once and fails if one of them fails: the lanes of `make test` and `make check`.

Run: python tools/run_together.py COMMAND [COMMAND ...]

Each COMMAND is one argument, split like a shell does. The output of the first appears as it comes. The others run with
a lower priority, so that they take the processor time the first leaves; their output appears when they end.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from typing import IO, Any

#: The first command gets about nine tenths of a processor that it shares with another one (`man 7 sched`).
NICENESS = 10


@dataclass
class Lane:
    """One command, its process and, unless it writes to the terminal itself, its output."""

    command: str
    process: subprocess.Popen[bytes]
    output: IO[bytes] | None
    #: The temporary directories of its tests. They stay if a test fails.
    temporary: str | None
    started: float = field(default_factory=time.monotonic)

    def wait(self) -> None:
        """Wait for its end, then print its output and how it ended."""
        status = self.process.wait()
        if status == 0 and self.temporary is not None:
            shutil.rmtree(self.temporary, ignore_errors=True)
        ended = "passed" if status == 0 else f"FAILED with exit status {status}"
        text = b""
        if self.output is not None:
            self.output.seek(0)
            text = b"\n" + self.output.read()
        seconds = round(time.monotonic() - self.started)
        # One write, so that lanes that end together do not mix.
        sys.stdout.buffer.write(text + f"=== {ended} after {seconds} s: {self.command}\n".encode())
        sys.stdout.buffer.flush()


def run(commands: list[str]) -> int:
    """Run the commands and return 0 if all of them succeed, else 1."""
    lanes = [_start(command, is_first=index == 0) for index, command in enumerate(commands)]

    def stop(_number: int, _frame: Any) -> None:
        for lane in lanes:
            lane.process.terminate()

    signal.signal(signal.SIGTERM, stop)
    # The terminal sends Ctrl-C to all of them. They say what it interrupted, and this process reports it.
    signal.signal(signal.SIGINT, lambda _number, _frame: None)
    threads = [threading.Thread(target=lane.wait) for lane in lanes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return int(any(lane.process.returncode != 0 for lane in lanes))


def _start(command: str, *, is_first: bool) -> Lane:
    arguments = shlex.split(command)
    if is_first:
        return Lane(command, subprocess.Popen(arguments), None, None)
    output = tempfile.TemporaryFile()  # noqa: SIM115 - the lane owns it until the process ends
    # Two pytest processes that share this directory fail now and then when both remove directories of former runs.
    temporary = tempfile.mkdtemp(prefix="t-")
    environment = {**os.environ, "PYTEST_DEBUG_TEMPROOT": temporary}
    arguments = ["nice", "-n", str(NICENESS), *arguments]
    process = subprocess.Popen(arguments, stdout=output, stderr=subprocess.STDOUT, env=environment)
    return Lane(command, process, output, temporary)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    sys.exit(run(sys.argv[1:]))
