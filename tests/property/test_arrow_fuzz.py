"""Forged Arrow messages of another TaskExecutor: false lengths, offsets, codecs, kinds and depths.

Each message is either usable or refused with BrokenError. Memory is bounded by the size of the message, not by the
sizes that it declares. FLINKPY_ARROW_FUZZ_CASES is the number of cases, FLINKPY_FUZZ_SEED the number of the first.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest
from data_plane_fuzzing import touch
from fuzzing import cases, mutate, number_of_cases

from flinkpy.common.errors import BrokenError
from flinkpy.network.codec import ColumnEncoder
from flinkpy.network.received import receive_batch, receive_schema
from flinkpy.records.batch import Batch

CASES = number_of_cases("FLINKPY_ARROW_FUZZ_CASES", 2000)
pytestmark = pytest.mark.timeout(max(120, CASES // 50))
#: LZ4 expands one byte to 255 at most, and no message here has 40 KB. zstd has its own test.
MEMORY_BYTES = 16 << 20
_INT64 = [-(1 << 63), -(1 << 31), -9, -1, 0, 1, 7, 8, 64, 1 << 16, 1 << 24, 1 << 31, 1 << 32, 1 << 40, (1 << 63) - 1]


def _batches() -> list[pa.RecordBatch]:
    nested = pa.array([[[1], []], [], None, [[2, 3]]], pa.list_(pa.list_(pa.int32())))
    return [
        pa.record_batch({"n": pa.array([1, None, 3, 4], pa.int64()), "s": pa.array(["a", None, "b" * 9, ""])}),
        pa.record_batch({"z": pa.array([0] * 5000, pa.int64()), "s": pa.array(["x" * 50] * 5000)}),
        pa.record_batch(
            {"l": nested, "v": pa.array(["short", "longer than twelve bytes", None, ""], pa.string_view())}
        ),
        pa.record_batch({f"c{number}": pa.array([number] * 4) for number in range(40)}),
    ]


def _messages() -> list[tuple[pa.Schema, bytes, int, int]]:
    """Returns schema, body, and sizes of payload and timestamps, for each batch and compression."""
    made = []
    for values in _batches():
        for compression in (None, "lz4", "zstd"):
            encoder = ColumnEncoder(compression)
            batch = Batch(values, np.arange(values.num_rows, dtype=np.int64), None)
            schema = encoder.open_schema(batch.values)
            assert schema is not None
            encoded = encoder.encode(batch)
            body = b"".join(bytes(memoryview(part)) for part in encoded.parts)
            made.append((receive_schema(schema), body, encoded.payload_bytes, encoded.timestamps_bytes))
    return made


MESSAGES = _messages()
SCHEMAS = [message[0] for message in MESSAGES]


def _lie(data: bytes, rng: random.Random) -> bytes:
    """Changes one to three numbers of the message, and sometimes single bytes."""
    changed = bytearray(data)
    for _ in range(rng.randint(1, 3)):
        width, form = rng.choice([(8, "<q"), (8, "<q"), (4, "<i"), (2, "<h")])
        # The metadata comes first and declares most of the numbers.
        reach = len(changed) if rng.random() < 0.4 else min(len(changed), 600)
        if reach < width:
            continue
        at = rng.randrange(0, reach - width + 1, width)
        (old,) = struct.unpack_from(form, changed, at)
        limit = 1 << (8 * width - 1)
        new = rng.choice([*_INT64, old + 1, old - 1, old * 2, -old, old ^ (1 << rng.randrange(8 * width - 1))])
        struct.pack_into(form, changed, at, (new + limit) % (2 * limit) - limit)
    return mutate(bytes(changed), rng) if rng.random() < 0.2 else bytes(changed)


def _other_message(rng: random.Random) -> bytes:
    """Returns an Arrow message that is not a batch of this schema, or not a batch at all."""
    schema = pa.schema([("a", pa.int64()), ("d", pa.dictionary(pa.int32(), pa.string()))])
    kind = rng.randrange(4)
    if kind == 0:
        return bytes(schema.serialize())
    if kind == 1:
        sink = pa.BufferOutputStream()
        pa.ipc.write_tensor(pa.Tensor.from_numpy(np.zeros((3, 4))), sink)
        return bytes(sink.getvalue())
    if kind == 2:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, schema) as writer:
            writer.write_batch(pa.record_batch([pa.array([1]), pa.array(["x"]).dictionary_encode()], schema=schema))
        return bytes(sink.getvalue())
    return bytes(rng.choice(_batches()).serialize())


def _refused_or(use: Callable[[], object], what: str) -> None:
    before = pa.total_allocated_bytes()
    try:
        use()
    except BrokenError:
        pass
    except BaseException as error:
        raise AssertionError(f"{what} raised {error!r}") from error
    held = pa.total_allocated_bytes() - before
    assert held < MEMORY_BYTES, f"{what} made us hold {held:,} bytes"


@pytest.mark.parametrize("is_member", [True, False])
def test_forged_messages_are_refused_or_usable(is_member: bool) -> None:
    pool = pa.default_memory_pool()
    for number, rng in cases(CASES // 2):
        schema, body, payload_bytes, timestamps_bytes = rng.choice(MESSAGES)
        if rng.random() < 0.1:
            body = _other_message(rng)
            payload_bytes = len(body)
        wrong = _lie(body, rng) if rng.random() < 0.95 else body
        against = schema if rng.random() < 0.9 else rng.choice(SCHEMAS)
        may_be_compressed = rng.random() < 0.5

        def use() -> None:
            received = receive_batch(
                against,  # noqa: B023 - called at once
                pa.py_buffer(wrong),  # noqa: B023
                min(payload_bytes, len(wrong)),  # noqa: B023
                timestamps_bytes,  # noqa: B023
                0,
                is_member=is_member,
                may_be_compressed=may_be_compressed,  # noqa: B023
            )
            if not is_member:  # offsets of a member are trusted, because it may run any code in this process
                touch(received.values)  # type: ignore[arg-type]

        peak = pool.max_memory() or 0
        _refused_or(use, f"case {number}")
        grown = (pool.max_memory() or 0) - peak
        assert grown < _allowed_bytes(wrong), f"case {number}: {len(wrong):,} bytes took {grown:,}"


def _allowed_bytes(message: bytes) -> int:
    """Returns the memory that receiving may use. Any ratio is plausible for zstd, so its limit is one gigabyte."""
    is_zstd = b"\x28\xb5\x2f\xfd" in message
    return (1 << 30) + (64 << 20) if is_zstd else 256 * len(message) + MEMORY_BYTES


def test_forged_schemas_are_read_or_refused() -> None:
    for number, rng in cases(CASES // 4):
        message = bytes(rng.choice(SCHEMAS).serialize())
        wrong = _lie(message, rng)
        _refused_or(lambda wrong=wrong: str(receive_schema(wrong)), f"case {number}")  # type: ignore[misc]


@pytest.mark.parametrize("depth", [33, 60, 5000])
def test_types_nested_too_deeply_are_refused(depth: int) -> None:
    kind: pa.DataType = pa.int8()
    for _ in range(min(depth, 60)):
        kind = pa.list_(kind)
    message = bytes(pa.schema([("a", kind)]).serialize())
    if depth > 60:
        message = message.replace(b"item", b"\x00" * 4) * 3
    with pytest.raises(BrokenError):
        receive_schema(message)


@pytest.mark.parametrize("is_member", [True, False])
def test_an_lz4_bomb_is_refused_before_it_takes_memory(is_member: bool) -> None:
    """A message of a few hundred bytes declares the maximum permitted size."""
    schema, body, payload_bytes, timestamps_bytes = next(
        message for message in MESSAGES if b"\x04\x22\x4d\x18" in message[1] and message[0].names == ["z", "s"]
    )
    at = body.index(b"\x04\x22\x4d\x18") - 8
    assert struct.unpack_from("<q", body, at) == (40_000,)
    wrong = body[:at] + struct.pack("<q", 1 << 29) + body[at + 8 :]
    before = pa.default_memory_pool().max_memory() or 0
    for may_be_compressed in (True, False):
        with pytest.raises(BrokenError, match="compressed batch"):
            receive_batch(
                schema,
                pa.py_buffer(wrong),
                payload_bytes,
                timestamps_bytes,
                0,
                is_member=is_member,
                may_be_compressed=may_be_compressed,
            )
    assert (pa.default_memory_pool().max_memory() or 0) - before < 1 << 20


def test_unexpected_compression_is_refused() -> None:
    for schema, body, payload_bytes, timestamps_bytes in MESSAGES:
        is_compressed = b"\x04\x22\x4d\x18" in body or b"\x28\xb5\x2f\xfd" in body
        arguments = (schema, pa.py_buffer(body), payload_bytes, timestamps_bytes, 0)
        if is_compressed:
            with pytest.raises(BrokenError, match="its producer must not compress"):
                receive_batch(*arguments, is_member=True, may_be_compressed=False)
        received = receive_batch(*arguments, is_member=True, may_be_compressed=is_compressed)
        assert received.num_rows == timestamps_bytes // 8
