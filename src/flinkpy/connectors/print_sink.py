"""PrintSink: writes each record as a line to the standard output of the TaskExecutor."""

from __future__ import annotations

import select
import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, TextIO

from flinkpy.common.error_text import valid_text
from flinkpy.connector_api.sink import SinkBase, SinkWriter, WriterContext
from flinkpy.formats.text_form import lines_of

if TYPE_CHECKING:
    from flinkpy.records.batch import Batch

#: POSIX guarantees that writes of other processes do not interleave with a write of this size to a pipe. Several
#: TaskExecutors may share the user's terminal, so a batch is written in groups of whole lines of at most this size.
_ATOMIC_WRITE_BYTES = select.PIPE_BUF

#: Keeps two subtasks of this process from writing at the same time.
_OUTPUT_LOCK = threading.Lock()


class PrintSink(SinkBase):
    """Prints records as `ID:N> record`: with the sink's identifier if it has one, and the subtask if there are several.

    Args:
        sink_identifier: a prefix of each line.
        std_err: True to print to standard error.
        lines: returns the texts of the records of a batch. None: that of `print()`.

    Source: org.apache.flink.api.common.functions.util.PrintSinkOutputWriter.
    """

    def __init__(
        self,
        sink_identifier: str | None = None,
        std_err: bool = False,
        lines: Callable[[Batch], list[str]] | None = None,
    ) -> None:
        self._sink_identifier = sink_identifier or ""
        self._std_err = std_err
        self._lines = lines

    def create_writer(self, context: WriterContext) -> SinkWriter:
        lines = self._lines or partial(lines_of, type_info=context.input_type)
        return PrintSinkWriter(context, self._sink_identifier, self._std_err, lines)

    @property
    def is_local_to_task(self) -> bool:
        return True


class PrintSinkWriter(SinkWriter):
    """Prints the records of one subtask. Thread: task thread."""

    def __init__(
        self, context: WriterContext, sink_identifier: str, std_err: bool, lines: Callable[[Batch], list[str]]
    ) -> None:
        self._lines = lines
        self._std_err = std_err
        parts = [sink_identifier] if sink_identifier else []
        if context.parallelism > 1:
            parts.append(str(context.subtask_index + 1))
        self._prefix = ":".join(parts) + "> " if parts else ""

    def write(self, batch: Batch) -> None:
        prefix = self._prefix
        lines = [f"{prefix}{valid_text(line)}\n" for line in self._lines(batch)]
        # Looked up for each batch, because a test or a program may replace the stream.
        stream = sys.stderr if self._std_err else sys.stdout
        with _OUTPUT_LOCK:
            _write_lines(stream, lines)


def _write_lines(stream: TextIO, lines: list[str]) -> None:
    group: list[str] = []
    size_bytes = 0
    for line in lines:
        # A character takes at most four bytes in UTF-8. Most lines are ASCII, with one byte per character.
        line_bytes = len(line) if line.isascii() else 4 * len(line)
        if size_bytes + line_bytes > _ATOMIC_WRITE_BYTES and group:
            stream.write("".join(group))
            stream.flush()
            group, size_bytes = [], 0
        group.append(line)
        size_bytes += line_bytes
    stream.write("".join(group))
    stream.flush()
