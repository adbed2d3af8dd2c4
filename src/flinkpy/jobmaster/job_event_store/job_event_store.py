"""JobEventStore: writes the events of one job to a file, in order, without blocking the main thread.

A crash loses only the last events, so the file shows the job as it was shortly before. `flushed` waits until a crash
loses none of them. After a failed write, the store logs the error and ignores all further events. The events in the
file remain valid.

The file is a log of records, each with its length and checksums:

```
  FLKPEVT1 | length u32 | crc32 of the length u32 | crc32 of the payload u32 | payload | length | ...
```

A process or host that dies during a write leaves an incomplete record or zeros at the end, which are cut off. Damage
anywhere else makes the file invalid.

Source: org.apache.flink.runtime.jobmaster.event.{JobEventManager,FileSystemJobEventStore}.
Thread: main thread for JobEventStore, except `open` and `remove`. Reading and writing the file blocks.
"""

from __future__ import annotations

import asyncio
import logging
import os
import struct
import threading
import zlib
from collections.abc import Iterable
from pathlib import Path

from google.protobuf.message import DecodeError

from flinkpy._proto import job_event_pb2
from flinkpy.common.durable_file import remove_durably, sync_directory, write_durably
from flinkpy.common.errors import CorruptStateError, ExternalError, LeadershipLostError
from flinkpy.rpc.endpoint import RpcEndpoint, TimerHandle

logger = logging.getLogger(__name__)

#: The name of the file in the recovery directory of the job.
FILE_NAME = "job-events.log"
DAMAGED_SUFFIX = ".damaged"
FORMER_SUFFIX = ".former"


MAGIC = b"FLKPEVT1"
_HEAD = struct.Struct("<III")


def read_log(path: Path) -> tuple[list[bytes], int]:
    """Returns the payloads of all complete records, and the number of bytes that they use. No file: no payloads.

    Raises: CorruptStateError naming the file and the position of the damage.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return [], 0
    if len(content) < len(MAGIC):
        if MAGIC.startswith(content):
            return [], 0
        raise CorruptStateError(f"{path} is not a log of job events")
    if not content.startswith(MAGIC):
        raise CorruptStateError(f"{path} is not a log of job events")
    payloads: list[bytes] = []
    position = len(MAGIC)
    while position < len(content):
        end = position + _HEAD.size
        if end > len(content):
            break
        length, head_checksum, checksum = _HEAD.unpack_from(content, position)
        is_head_whole = head_checksum == _checksum_of(length)
        payload = content[end : end + length]
        if is_head_whole and len(payload) == length and zlib.crc32(payload) == checksum:
            payloads.append(payload)
            position = end + length
        elif (is_head_whole and end + length >= len(content)) or not any(content[position:]):
            break
        else:
            raise CorruptStateError(f"{path} is damaged at byte {position}, before its end")
    return payloads, position


def _checksum_of(length: int) -> int:
    return zlib.crc32(length.to_bytes(4, "little"))


def take_over(path: Path) -> Path:
    """Renames the log, so that a former JobMaster notices its successor. Returns the path from which to read it.

    A crash after this call leaves the renamed log, or both that and its complete copy. Idempotent.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    former = path.with_name(path.name + FORMER_SUFFIX)
    if path.exists():
        path.replace(former)
        sync_directory(path.parent)
    return former


class EventLogWriter:
    """Appends records to a log. Cuts off an incomplete end first. Raises: OSError.

    The log is copied to a new file. A former JobMaster that was paused, and does not know its successor, has the old
    file open. `take_over` has renamed it before it was read. So either the successor has read what the former one
    wrote, or the former one finds that its file is not the log any more.

    Thread: any; `close` waits for the end of `append`.
    """

    def __init__(self, path: Path, whole_bytes: int) -> None:
        former = take_over(path)
        whole = former.read_bytes()[:whole_bytes] if whole_bytes else MAGIC
        write_durably(path, whole)
        remove_durably(former)
        self._path = path
        self._lock = threading.Lock()
        self._file = path.open("r+b")
        self._file.seek(len(whole))

    def append(self, payloads: Iterable[bytes]) -> None:
        """Appends records. They are on disk when this returns. Do not append anything after an error.

        Does nothing after `close`: the records are lost, as in a crash.

        Raises:
            LeadershipLostError: another JobMaster has taken over the log, perhaps without these records.
        """
        with self._lock:
            if self._file.closed:
                return
            for payload in payloads:
                head = _HEAD.pack(len(payload), _checksum_of(len(payload)), zlib.crc32(payload))
                self._file.write(head + payload)
            self._sync()
            self._check_is_current()

    def _check_is_current(self) -> None:
        mine = os.fstat(self._file.fileno())
        try:
            current = os.stat(self._path)
        except FileNotFoundError:
            current = None
        if current is None or not os.path.samestat(mine, current):
            raise LeadershipLostError(f"another JobMaster has taken over {self._path}")

    def close(self) -> None:
        """Closes the file. Idempotent."""
        with self._lock:
            self._file.close()

    def _sync(self) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())


class JobEventStore:
    """Stores the events of one job.

    Args:
        buffer_bytes: events are written when this amount is waiting.
        flush_interval_ms: events are written at the latest after this time.
    """

    def __init__(self, endpoint: RpcEndpoint, directory: Path, *, buffer_bytes: int, flush_interval_ms: int) -> None:
        self._endpoint = endpoint
        self._path = directory / FILE_NAME
        self._buffer_bytes = buffer_bytes
        self._flush_interval_ms = flush_interval_ms
        self._writer: EventLogWriter | None = None
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        self._is_writing = False
        self._timer: TimerHandle | None = None
        self._has_failed = False
        self._failure: BaseException | None = None
        #: The numbers of events that were added, and that are on disk.
        self._num_added = self._num_stored = 0
        #: The futures that wait until a number of events is on disk.
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []

    def open(self, *, may_start_over: bool = True) -> list[job_event_pb2.JobEvent]:
        """Returns the events of earlier JobMasters. Renames a damaged file and returns no events. Blocks; any thread.

        Args:
            may_start_over: False if the job must not run without the events of a damaged file.

        Raises:
            OSError.
            CorruptStateError: the file is damaged, and the job must not start over.
        """
        former = take_over(self._path)
        try:
            payloads, whole_bytes = read_log(former)
            events = [job_event_pb2.JobEvent.FromString(payload) for payload in payloads]
        except (CorruptStateError, DecodeError) as error:
            aside = self._path.with_name(self._path.name + DAMAGED_SUFFIX)
            former.replace(aside)
            if not may_start_over:
                raise CorruptStateError(
                    f"the recorded job events cannot be used, and the job cannot start over, because a sink may have "
                    f"committed: {error}; the file was renamed to {aside}"
                ) from error
            logger.error(
                "the recorded job events cannot be used, so all tasks run again: %s; the file was renamed to %s",
                error,
                aside,
            )
            events, whole_bytes = [], 0
        self._writer = EventLogWriter(self._path, whole_bytes)
        return events

    def append(self, event: job_event_pb2.JobEvent, *, is_urgent: bool = False) -> None:
        """Adds an event. `is_urgent`: write it now. Ignored if the store is not open or has failed."""
        if self._writer is None or self._has_failed:
            return
        payload = event.SerializeToString()
        self._num_added += 1
        self._waiting.append(payload)
        self._waiting_bytes += len(payload)
        if is_urgent or self._waiting_bytes >= self._buffer_bytes:
            self._flush()
        elif self._timer is None:
            self._timer = self._endpoint.schedule(self._flush_interval_ms, self._flush)

    async def flushed(self) -> None:
        """Waits until all events so far are on disk, in the log that the next JobMaster will read.

        Raises:
            ExternalError: they are not, and will not be.
        """
        wanted = self._num_added
        if self._num_stored < wanted and not self._has_failed:
            stored = asyncio.get_running_loop().create_future()
            self._waiters.append((wanted, stored))
            self._flush()
            await stored
        if self._has_failed or self._writer is None:
            raise ExternalError(f"the events of the job cannot be recorded in {self._path}: {self._failure}")

    def remove(self) -> None:
        """Deletes the file after the end of the job. Blocks; any thread, after the last `append`."""
        self._has_failed = True
        self.close()
        remove_durably(self._path)

    def close(self) -> None:
        """Closes the file. Waiting events are lost, like in a crash. Blocks while events are written. Idempotent."""
        writer = self._writer
        self._writer = None
        if writer is not None:
            writer.close()

    def _flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        writer = self._writer
        if self._is_writing or not self._waiting or writer is None:
            return
        payloads = self._waiting
        self._waiting = []
        self._waiting_bytes = 0
        self._is_writing = True
        self._endpoint.run_blocking(
            lambda: writer.append(payloads),
            lambda _, error: self._written(len(payloads), error),
            "write job events",
        )

    def _written(self, num_events: int, error: BaseException | None) -> None:
        self._is_writing = False
        if error is None:
            self._num_stored += num_events
        else:
            self._has_failed = True
            self._failure = error
            self._waiting.clear()
            logger.error("job events are not recorded any more, because %s cannot be written: %s", self._path, error)
        for wanted, stored in self._waiters:
            if not stored.done() and (self._has_failed or self._num_stored >= wanted):
                stored.set_result(None)
        self._waiters = [(wanted, stored) for wanted, stored in self._waiters if not stored.done()]
        if self._writer is not None and error is None:
            self._flush()
