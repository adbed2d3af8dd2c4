"""The messages and payloads with which a result travels from the sink through the JobMaster to the client.

    CollectWriter  -- CollectStart, CollectBatch, -->   CollectCoordinator   <-- CollectRequest --  CollectIterator
       (task)         CollectConfirmed, CollectEnd         (JobMaster)        -- CollectResponse ->    (client)
                   <-- CollectAck, CollectCancel --

Every subtask numbers its batches from 0. A restored attempt continues with the number in its checkpoint. Each attempt
has its own random version. A payload contains the records of one batch: as Arrow IPC, with their RowKinds, if their
declared type has columns, and pickled otherwise. The JobMaster does not decode payloads.

Source: org.apache.flink.streaming.api.operators.collect.{CollectCoordinationRequest, CollectCoordinationResponse}.
"""

from __future__ import annotations

import enum
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flinkpy.common.typeinfo import TypeInformation
    from flinkpy.records.batch import Batch


class Guarantee(enum.Enum):
    """The delivery guarantee of a result: when the client returns batches, and the effect of a restart."""

    NONE = "returns batches immediately; fails if the job restarts after some were returned"
    AT_LEAST_ONCE = "returns batches immediately; a restart repeats some of them"
    EXACTLY_ONCE = "returns batches of completed checkpoints; a restart is not visible"


@dataclass(frozen=True, slots=True)
class CollectStart:
    """The first event of an attempt.

    Attributes:
        first_sequence: the first batch that this attempt sends. The batches that the client did not have at the
            checkpoint are sent again.
        restored_sequence: batches below this number are in the checkpoint. The attempt produces the others again.
    """

    version: str
    first_sequence: int
    restored_sequence: int
    guarantee: Guarantee


@dataclass(frozen=True, slots=True)
class CollectBatch:
    """One batch, or a part of a batch that is too large for one message."""

    sequence: int
    payload: bytes


@dataclass(frozen=True, slots=True)
class CollectConfirmed:
    """Batches below `sequence` are in a completed checkpoint."""

    sequence: int


@dataclass(frozen=True, slots=True)
class CollectEnd:
    """The end of the result: no batch has this number or a higher one.

    Attributes:
        is_suspended: True if the job was stopped with a savepoint. It does not wait for a client that has gone.
    """

    sequence: int
    is_suspended: bool = False


@dataclass(frozen=True, slots=True)
class CollectAck:
    """The client has all batches below `sequence` of this attempt. With `is_final` the attempt may finish."""

    attempt_number: int
    sequence: int
    is_final: bool = False


@dataclass(frozen=True, slots=True)
class CollectCancel:
    """The client needs no further batches."""


@dataclass(frozen=True, slots=True)
class CollectRequest:
    """The client asks for further batches.

    Attributes:
        positions: for each subtask the version that the client knows, and the number below which it has all batches.
        max_bytes: the largest answer, unless a single batch is larger.
        close: True if the client has all batches or needs no more.
    """

    positions: dict[int, tuple[str, int]]
    max_bytes: int
    close: bool = False


@dataclass(frozen=True, slots=True)
class SubtaskResult:
    """The result of one subtask's current attempt.

    `batches` is empty unless the client knows the version. It is in order and has no gaps.
    """

    start: CollectStart
    confirmed_sequence: int
    batches: tuple[tuple[int, bytes], ...] = ()


@dataclass(frozen=True, slots=True)
class CollectResponse:
    """The answer to a CollectRequest.

    Attributes:
        subtasks: results by subtask, for subtasks that have started.
        finished: True if the client now has all batches and may return all of them.
    """

    subtasks: dict[int, SubtaskResult]
    finished: bool = False


def encode_payload(batch: Batch, type_info: TypeInformation | None) -> bytes:
    """Encodes a batch. Raises: TypeMismatchError if a row does not match `type_info`."""
    import cloudpickle

    from flinkpy.records.lanes import (
        declared_rows,
        has_columns,
        has_exact_columns,
        rows_of,
        to_columns,
        type_info_of_schema,
    )

    if type_info is not None and has_columns(type_info) and not has_exact_columns(type_info):
        if not batch.is_columnar:
            batch = batch.with_values(declared_rows(rows_of(batch), type_info))
    elif type_info is not None and has_columns(type_info):
        batch = to_columns(batch, type_info)
        kinds = None if batch.kinds is None else batch.kinds.tobytes()
        return pickle.dumps((type_info, _to_ipc(batch.values), kinds), protocol=pickle.HIGHEST_PROTOCOL)
    elif batch.is_columnar:
        type_info = type_info_of_schema(batch.values.schema)  # type: ignore[union-attr]
    return cloudpickle.dumps((None, rows_of(batch, type_info)), protocol=pickle.HIGHEST_PROTOCOL)


def decode_payload(payload: bytes) -> list[Any]:
    """Returns the records of an encoded batch."""
    from flinkpy.records.lanes import rows_of

    type_info, batch = _decode(payload)
    return rows_of(batch, type_info)


def decode_batch(payload: bytes) -> list[Batch]:
    """Returns the encoded batch, in columns if its declared type has columns."""
    return [_decode(payload)[1]]


def _decode(payload: bytes) -> tuple[TypeInformation | None, Batch]:
    import numpy as np
    import pyarrow as pa

    from flinkpy.records.batch import Batch

    # Payloads in savepoints of flinkpy 0.1 have no RowKinds.
    type_info, content, *rest = pickle.loads(payload)
    if type_info is None:
        return None, Batch(content)
    with pa.ipc.open_stream(content) as reader:
        columns = reader.read_next_batch()
    kinds = rest[0] if rest else None
    return type_info, Batch(columns, None, None if kinds is None else np.frombuffer(kinds, np.int8))


#: The first byte of each part of a payload that is too large for one message. A whole payload is a pickle, which begins
#: with a different byte.
_MORE_FOLLOWS, _LAST_PART = b"\x01", b"\x02"


def split_payload(payload: bytes, max_bytes: int) -> list[bytes]:
    """Returns the payload, or the parts of at most `max_bytes` from which a PayloadAssembler restores it."""
    if len(payload) <= max_bytes:
        return [payload]
    size = max_bytes - len(_MORE_FOLLOWS)
    parts = [_MORE_FOLLOWS + payload[start : start + size] for start in range(0, len(payload), size)]
    parts[-1] = _LAST_PART + parts[-1][1:]
    return parts


def is_complete(part: bytes) -> bool:
    """True if `part` is a whole payload or the last part of one."""
    return part[:1] != _MORE_FOLLOWS


class PayloadAssembler:
    """Puts payloads together again from the parts that `split_payload` returned.

    Args:
        decode: returns the records of a payload.
    """

    def __init__(self, decode: Callable[[bytes], list[Any]] = decode_payload) -> None:
        self._parts: list[bytes] = []
        self._decode = decode

    def take(self, part: bytes) -> list[Any]:
        """Returns the records of the payload that ends with this part, or an empty list if more parts follow."""
        if part[:1] == _MORE_FOLLOWS:
            self._parts.append(part[1:])
            return []
        if part[:1] == _LAST_PART:
            part = b"".join((*self._parts, part[1:]))
            self._parts.clear()
        return self._decode(part)

    def reset(self) -> None:
        """Drops the parts of an incomplete payload."""
        self._parts.clear()


def _to_ipc(columns: Any) -> bytes:
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, columns.schema) as writer:
        writer.write_batch(columns)
    return sink.getvalue().to_pybytes()
