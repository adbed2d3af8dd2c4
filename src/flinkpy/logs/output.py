"""TaskOutput: a standard output that turns what tasks print into log records.

Source: org.apache.flink.runtime.taskexecutor.TaskManagerRunner's redirection of System.out (SystemOutMode.LOG).
"""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Iterable
from typing import TextIO

from flinkpy.logs.context import LogContext, current_context

#: The names of the loggers of what tasks print.
STDOUT, STDERR = "stdout", "stderr"
#: Longest line of output where no option says so: the default of `taskmanager.system-out.log.cache-upper-size`.
MAX_LINE_CHARS = 100 << 10
#: Takes the lines that a thread has printed.
Sink = Callable[[LogContext, str, list[str]], None]


class TaskOutput(io.TextIOBase):
    """Stands for `sys.stdout` or `sys.stderr`. Thread: any.

    What a task prints becomes a record per line. What belongs to no job passes unchanged, and so does what is written
    to `buffer` or to the descriptor.

    Args:
        name: the logger of the records.
        stream: the stream that this one stands for.
        sink: takes the lines of tasks.
        max_chars: a longer unfinished line is cut into several records.
        passes_on: the text also goes to the original stream.
    """

    def __init__(
        self, name: str, stream: TextIO, sink: Sink, max_chars: int = MAX_LINE_CHARS, *, passes_on: bool = False
    ) -> None:
        self._passes_on = passes_on
        self._name = name
        self._stream = stream
        self._sink = sink
        self._max_chars = max_chars
        #: The unfinished line of each thread, with its context.
        self._unfinished: dict[int, tuple[LogContext, str]] = {}

    def write(self, text: str) -> int:
        context = current_context()
        if context is None:
            return self._stream.write(text)
        if type(text) is not str:
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        if self._passes_on:
            self._stream.write(text)
        thread = threading.get_ident()
        if self._unfinished and (found := self._unfinished.pop(thread, None)) is not None:
            if found[0] is context:
                text_now = found[1] + text
            else:
                self._sink(found[0], self._name, [found[1]])
                text_now = text
        else:
            text_now = text
        lines = text_now.split("\n")
        rest = lines.pop()
        while len(rest) > self._max_chars:
            lines.append(rest[: self._max_chars])
            rest = rest[self._max_chars :]
        if lines:
            self._sink(context, self._name, lines)
        if rest:
            self._unfinished[thread] = (context, rest)
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:  # type: ignore[override]
        self.write("".join(lines))

    def flush(self) -> None:
        """Makes a record of the unfinished line of this thread, and flushes the stream."""
        found = self._unfinished.pop(threading.get_ident(), None)
        if found is not None:
            self._sink(found[0], self._name, [found[1]])
        if not self._stream.closed:
            self._stream.flush()

    def flush_all(self) -> None:
        """Makes records of the unfinished lines of all threads. Called when a task or the process ends."""
        for thread in list(self._unfinished):
            found = self._unfinished.pop(thread, None)
            if found is not None:
                self._sink(found[0], self._name, [found[1]])

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return False

    def fileno(self) -> int:
        return self._stream.fileno()

    @property
    def buffer(self) -> io.BufferedIOBase:
        """The bytes of the original stream. What is written there belongs to no task."""
        return self._stream.buffer  # type: ignore[return-value]

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return "utf-8"

    @property
    def errors(self) -> str:  # type: ignore[override]
        return "backslashreplace"

    @property
    def name(self) -> str:
        return self._stream.name

    @property
    def line_buffering(self) -> bool:
        return True

    def reconfigure(self, **options: object) -> None:
        """Accepts the options of a text stream. The format of records does not depend on them."""
