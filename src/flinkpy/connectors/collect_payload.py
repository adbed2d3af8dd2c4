"""A batch of results as bytes: Arrow IPC where the records have a declared type with columns, else pickled."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flinkpy.common.typeinfo import TypeInformation
    from flinkpy.records.batch import Batch


def encode_payload(batch: Batch, type_info: TypeInformation | None) -> bytes:
    """Raises TypeMismatchError where a row does not match `type_info`."""
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
        if batch.kinds is None:
            return pickle.dumps((type_info, _to_ipc(batch.values)), protocol=pickle.HIGHEST_PROTOCOL)
    elif batch.is_columnar:
        type_info = type_info_of_schema(batch.values.schema)  # type: ignore[union-attr]
    return cloudpickle.dumps((None, rows_of(batch, type_info)), protocol=pickle.HIGHEST_PROTOCOL)


def decode_payload(payload: bytes) -> list[Any]:
    """The records of the batch."""
    type_info, content = pickle.loads(payload)
    if type_info is None:
        return content
    import pyarrow as pa

    from flinkpy.records.batch import Batch
    from flinkpy.records.lanes import rows_of

    with pa.ipc.open_stream(content) as reader:
        return [row for columns in reader for row in rows_of(Batch(columns), type_info)]


#: First byte of a part of a payload that is too large for one message. A whole payload is a pickle, which begins with
#: another byte.
_MORE_FOLLOWS, _LAST_PART = b"\x01", b"\x02"


def split_payload(payload: bytes, max_bytes: int) -> list[bytes]:
    """The payload itself, or the parts that a PayloadAssembler puts together again, each of at most `max_bytes`."""
    if len(payload) <= max_bytes:
        return [payload]
    size = max_bytes - len(_MORE_FOLLOWS)
    parts = [_MORE_FOLLOWS + payload[start : start + size] for start in range(0, len(payload), size)]
    parts[-1] = _LAST_PART + parts[-1][1:]
    return parts


def is_complete(part: bytes) -> bool:
    """Whether a payload ends with this part of it, or is this."""
    return part[:1] != _MORE_FOLLOWS


class PayloadAssembler:
    """Takes what `split_payload` made, in order, and gives the records of whole payloads."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def take(self, part: bytes) -> list[Any]:
        """The records of the payload that ends with this part; none where more of it follows."""
        if part[:1] == _MORE_FOLLOWS:
            self._parts.append(part[1:])
            return []
        if part[:1] == _LAST_PART:
            part = b"".join((*self._parts, part[1:]))
            self._parts.clear()
        return decode_payload(part)

    def reset(self) -> None:
        """The next part is the first one of a payload."""
        self._parts.clear()


def _to_ipc(columns: Any) -> bytes:
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, columns.schema) as writer:
        writer.write_batch(columns)
    return sink.getvalue().to_pybytes()
