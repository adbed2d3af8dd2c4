"""Taking values from several Arrow arrays."""

from __future__ import annotations

import datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from flinkpy.records import gather
from flinkpy.state.row_chunks import CHUNK_ROWS, RowChunks

_VALUES = {
    "texts": (pa.string(), ["", "a", "längerer Text", None, "x" * 100]),
    "bytes": (pa.binary(), [b"", b"\x00\xff", None]),
    "int64": (pa.int64(), [1, -(1 << 63), None, (1 << 63) - 1]),
    "int32": (pa.int32(), [7, None, -8]),
    "float": (pa.float64(), [1.5, None, float("inf")]),
    "decimal": (pa.decimal128(20, 2), [Decimal("1.50"), None, Decimal("-999999999999999999.99")]),
    "date": (pa.date32(), [datetime.date(2024, 2, 29), None]),
    "time": (pa.timestamp("ms"), [datetime.datetime(2024, 2, 29, 1, 2, 3), None]),
    "bool": (pa.bool_(), [True, False, None]),
    "list": (pa.list_(pa.int64()), [[1], [], None]),
}


@pytest.fixture(params=["compiled", "arrow"])
def form(request, monkeypatch):
    if request.param == "compiled":
        pytest.importorskip("numba")
    monkeypatch.setattr(gather.kernels, "is_enabled", request.param == "compiled")


@pytest.mark.parametrize("name", _VALUES)
def test_values_of_several_arrays_are_taken_in_any_order(name, form):
    kind, values = _VALUES[name]
    whole = pa.array([*values, *values[:1]], kind)
    no_nulls = pa.array([value for value in values if value is not None], kind)
    arrays = [whole, no_nulls, pa.array([], kind), whole.slice(1, 2)]
    places = np.random.default_rng(1).integers(0, sum(map(len, arrays)), 50)

    taken = gather.take_joined(arrays, places)

    taken.validate(full=True)
    assert taken.type == kind
    assert taken.to_pylist() == pa.concat_arrays(arrays).take(pa.array(places)).to_pylist()
    assert gather.take_joined(arrays, places[:0]).to_pylist() == []


@pytest.mark.parametrize("rows", [[CHUNK_ROWS // 3] * 7, [1] * 500, [5, 900, 3] * 40], ids=["chunks", "rows", "mixed"])
def test_rows_are_found_in_chunks_and_in_pieces_of_the_tail(rows, form):
    chunks = RowChunks([pa.int64(), pa.string(), pa.bool_()])
    begin = 0
    for count in rows:
        numbers = np.arange(begin, begin + count)
        texts = pa.array([None if number % 50 == 7 else str(number) for number in numbers.tolist()], pa.string())
        positions = chunks.append([pa.array(numbers), texts, pa.array(numbers % 3 == 0)])
        assert positions.tolist() == numbers.tolist()
        begin += count
    asked = np.random.default_rng(2).integers(0, begin, 300)

    numbers, texts, flags = chunks.take(asked, [0, 1, 2])

    assert numbers.to_pylist() == asked.tolist()
    assert texts.to_pylist() == [None if number % 50 == 7 else str(number) for number in asked.tolist()]
    assert flags.to_pylist() == [number % 3 == 0 for number in asked.tolist()]
    if begin > CHUNK_ROWS:
        chunks.drop(0)
        later = asked[asked >= CHUNK_ROWS]
        assert chunks.take(later, [0])[0].to_pylist() == later.tolist()
