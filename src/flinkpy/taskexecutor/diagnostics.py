"""What a TaskExecutor tells of itself: its threads and its log files."""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path

from flinkpy._proto import taskexecutor_pb2
from flinkpy.common.errors import UserError

CHUNK_BYTES = 1 << 20


def thread_dump() -> taskexecutor_pb2.ThreadDump:
    """Name and stack of every Python thread of this process."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    return taskexecutor_pb2.ThreadDump(
        threads=[
            taskexecutor_pb2.ThreadDump.Thread(
                name=names.get(ident, f"thread {ident}"), stack="".join(traceback.format_stack(frame))
            )
            for ident, frame in sys._current_frames().items()
        ]
    )


class LogFiles:
    """The files of one log directory. A name that is not in `log_list` does not exist here, whatever it looks like."""

    def __init__(self, directory: str | None) -> None:
        self._directory = None if directory is None else Path(directory)

    def log_list(self) -> taskexecutor_pb2.LogList:
        return taskexecutor_pb2.LogList(
            files=[
                taskexecutor_pb2.LogList.LogFile(name=path.name, size_bytes=path.stat().st_size)
                for path in self._paths()
            ]
        )

    def read(self, name: str) -> Iterator[bytes]:
        """The content in chunks. Raises: UserError where the list has no such name."""
        found = next((path for path in self._paths() if path.name == name), None)
        if found is None:
            raise UserError(f"there is no log file {name!r}", details={"name": name})
        return self._chunks(found)

    def _paths(self) -> list[Path]:
        if self._directory is None or not self._directory.is_dir():
            return []
        return sorted(path for path in self._directory.iterdir() if path.is_file() and not path.is_symlink())

    @staticmethod
    def _chunks(path: Path) -> Iterator[bytes]:
        with path.open("rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                yield chunk
