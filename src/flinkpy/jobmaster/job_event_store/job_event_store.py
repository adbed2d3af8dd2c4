"""JobEventStore: keeps the events of one job in a file, in order, without making anybody wait for the disk.

Events that are lost with a crash are the last ones, so that what is left is the job as it was a moment ago. A store
that cannot write any more says so and keeps nothing from then on: what it has stays true.

Source: org.apache.flink.runtime.jobmaster.event.{JobEventManager,FileSystemJobEventStore}.
Thread: main thread, but for `open`.
"""

from __future__ import annotations

import logging
from pathlib import Path

from google.protobuf.message import DecodeError

from flinkpy._proto import job_event_pb2
from flinkpy.common.durable_file import remove_durably
from flinkpy.common.errors import CorruptStateError
from flinkpy.jobmaster.job_event_store.event_log import EventLogWriter, read_log
from flinkpy.rpc.endpoint import RpcEndpoint, TimerHandle

logger = logging.getLogger(__name__)

#: In the recovery directory of the job.
FILE_NAME = "job-events.log"
DAMAGED_SUFFIX = ".damaged"


class JobEventStore:
    """Args:
    buffer_bytes, flush_interval_ms: events wait until there is so much of them, or for so long.
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

    def open(self) -> list[job_event_pb2.JobEvent]:
        """What earlier JobMasters wrote. A damaged file is put aside: the job begins anew. Blocking; any thread.

        Raises: OSError.
        """
        try:
            payloads, whole_bytes = read_log(self._path)
            events = [job_event_pb2.JobEvent.FromString(payload) for payload in payloads]
        except (CorruptStateError, DecodeError) as error:
            aside = self._path.with_name(self._path.name + DAMAGED_SUFFIX)
            logger.error("the job begins anew, its events cannot be used: %s; the file is now %s", error, aside)
            self._path.replace(aside)
            events, whole_bytes = [], 0
        self._writer = EventLogWriter(self._path, whole_bytes)
        return events

    def append(self, event: job_event_pb2.JobEvent, *, is_urgent: bool = False) -> None:
        """`is_urgent`: write it, and all before it, now. Ignored where the store is not open, or has failed."""
        if self._writer is None or self._has_failed:
            return
        payload = event.SerializeToString()
        self._waiting.append(payload)
        self._waiting_bytes += len(payload)
        if is_urgent or self._waiting_bytes >= self._buffer_bytes:
            self._flush()
        elif self._timer is None:
            self._timer = self._endpoint.schedule(self._flush_interval_ms, self._flush)

    def remove(self) -> None:
        """The job is over. Blocking; any thread, after the last `append` of the main thread."""
        self._has_failed = True
        self.close()
        remove_durably(self._path)

    def close(self) -> None:
        """Idempotent. What waits is lost, as it would be by a crash."""
        writer, self._writer = self._writer, None
        if writer is not None and not self._is_writing:
            writer.close()

    def _flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        writer = self._writer
        if self._is_writing or not self._waiting or writer is None:
            return
        payloads, self._waiting, self._waiting_bytes = self._waiting, [], 0
        self._is_writing = True
        self._endpoint.run_blocking(
            lambda: writer.append(payloads), lambda _, error: self._written(writer, error), "write job events"
        )

    def _written(self, writer: EventLogWriter, error: BaseException | None) -> None:
        self._is_writing = False
        if error is not None:
            self._has_failed = True
            self._waiting.clear()
            logger.error("job events are not recorded any more: %s cannot be written: %s", self._path, error)
        if self._writer is None:  # closed in the meantime
            writer.close()
        elif error is None:
            self._flush()
