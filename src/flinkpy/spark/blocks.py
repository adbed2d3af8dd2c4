"""Blocks: a batch of records as one binary value, which is one row of a DataFrame.

Spark moves blocks without looking into them, so it costs per batch what usually costs per record. A block holds columns
(an Arrow IPC stream) or Python objects (a pickle), with timestamps and kinds. The accumulators of a subtask travel
between its blocks, so the accumulators of a failed attempt are dropped with everything else that it made.
"""

from __future__ import annotations

import pickle
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from flinkpy.common.errors import InternalError
from flinkpy.network.codec import encode_rows
from flinkpy.records.batch import Batch

#: The kind of the payload, and the sizes of payload, timestamps and kinds in bytes.
_HEAD = struct.Struct("<cQQQ")
_COLUMNS, _ROWS, _ACCUMULATORS, _SINK_REPORT = b"C", b"R", b"A", b"S"

#: The name under which a task reports, among its accumulators, how many of its attempts failed before it.
FAILED_ATTEMPTS = "flinkpy.spark.failed-attempts"

#: The pickled accumulators of one subtask, by name.
Accumulators = Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class SinkReport:
    """The result of one subtask's writer.

    Attributes:
        sink: the number of the sink in its pass.
        committables: the committables in the form of the sink's serializer.
    """

    sink: int
    subtask_index: int
    attempt_number: int
    num_records: int
    committables: tuple[bytes, ...]


def encode_block(batch: Batch) -> bytes:
    """Returns the block of a batch. Raises: TypeMismatchError if a row cannot be pickled."""
    payload: Any
    if isinstance(batch.values, list):
        kind, payload = _ROWS, encode_rows(Batch(batch.values)).parts[0]
    else:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.values.schema) as writer:
            writer.write_batch(batch.values)
        kind, payload = _COLUMNS, sink.getvalue()
    timestamps = b"" if batch.timestamps is None else np.ascontiguousarray(batch.timestamps, dtype="<i8").tobytes()
    kinds = b"" if batch.kinds is None else np.ascontiguousarray(batch.kinds, dtype=np.int8).tobytes()
    return b"".join((_HEAD.pack(kind, len(payload), len(timestamps), len(kinds)), payload, timestamps, kinds))


def encode_accumulators(accumulators: Accumulators) -> bytes:
    payload = pickle.dumps(dict(accumulators), protocol=5)
    return _HEAD.pack(_ACCUMULATORS, len(payload), 0, 0) + payload


def encode_sink_report(report: SinkReport) -> bytes:
    payload = pickle.dumps(report, protocol=5)
    return _HEAD.pack(_SINK_REPORT, len(payload), 0, 0) + payload


def decode_block(data: pa.Buffer | bytes) -> Batch | Accumulators | SinkReport:
    """Returns the content of a block. The arrays of a batch point into `data`."""
    buffer = pa.py_buffer(data)
    kind, payload_bytes, timestamps_bytes, kinds_bytes = _HEAD.unpack_from(buffer)
    at = _HEAD.size
    payload = buffer.slice(at, payload_bytes)
    values: Any
    if kind in (_ACCUMULATORS, _SINK_REPORT):
        content: Accumulators | SinkReport = pickle.loads(payload)
        return content
    if kind == _ROWS:
        values = pickle.loads(payload)
    elif kind == _COLUMNS:
        with pa.ipc.open_stream(payload) as reader:
            values = reader.read_next_batch()
    else:
        raise InternalError(f"a block of records begins with {kind!r}")
    at += payload_bytes
    timestamps = np.frombuffer(buffer, "<i8", timestamps_bytes // 8, at) if timestamps_bytes else None
    at += timestamps_bytes
    kinds = np.frombuffer(buffer, np.int8, kinds_bytes, at) if kinds_bytes else None
    return Batch(values, timestamps, kinds)
