"""Key hashes: one number per key, in every lane and process."""

from __future__ import annotations

import datetime as dt
import decimal
import enum
import random
import subprocess
import sys
import uuid
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest

from flinkpy.common.errors import TypeMismatchError
from flinkpy.records import key_hash
from flinkpy.records.key_hash import hash_columns, hash_key, hash_keys, key_groups

LONG_TEXT = "a text that is much longer than a word of eight bytes €"

# Part of the wire and state contract: these numbers must never change.
VECTORS = [
    (0, 0),
    (1, 2157213648),
    ("", 2520146920),
    ("a", 869338369),
    ((1,), 1612742387),
]

#: Lengths around each limit: of a word, of a long string, of a chunk of a long string.
BORDER_LENGTHS = [0, 1, 7, 8, 9, 255, 256, 257, 264, 265, 65_535, 65_536, 65_537, 65_545]

COLUMNS = [
    ([0, 1, -1, 2**63 - 1, -(2**63)], pa.int64()),
    ([0, 1, -1, 127], pa.int8()),
    ([0, 2**64 - 1, 2**63], pa.uint64()),
    ([0.0, -0.0, 1.5, float("nan"), float("inf"), -1e300], pa.float64()),
    ([True, False], pa.bool_()),
    (["", "a", "abcdefgh", "abcdefghi", LONG_TEXT, "€" * 9], pa.string()),
    (["", "a", LONG_TEXT], pa.large_string()),
    ([b"", b"\0", b"\0\0", bytes(range(40))], pa.binary()),
    ([dt.date(1969, 12, 31), dt.date(2024, 2, 29)], pa.date32()),
    ([dt.datetime(1960, 1, 1, 1, 2, 3, 4), dt.datetime(2030, 6, 5)], pa.timestamp("us")),
    ([dt.datetime(1960, 1, 1, 1, 2, 3, 4)], pa.timestamp("ns")),
    ([dt.time(23, 59, 59, 999999), dt.time(0)], pa.time64("us")),
    ([dt.timedelta(days=-1, microseconds=5)], pa.duration("us")),
    ([decimal.Decimal("1.50"), decimal.Decimal("-0.01")], pa.decimal128(10, 2)),
]


@pytest.mark.parametrize(("key", "expected"), VECTORS)
def test_known_keys_have_the_recorded_hashes(key: Any, expected: int) -> None:
    assert hash_key(key) == expected


@pytest.mark.parametrize(("values", "kind"), COLUMNS, ids=lambda x: str(x) if isinstance(x, pa.DataType) else "")
def test_column_hashes_like_its_python_values_with_and_without_nulls_and_offsets(
    values: list[Any], kind: pa.DataType
) -> None:
    expected = [hash_key(value) for value in values]

    assert hash_keys(values).tolist() == expected
    assert hash_columns([pa.array(values, kind)]).tolist() == expected

    with_null = pa.array([*values, None], kind)
    assert hash_columns([with_null]).tolist() == [*expected, hash_key(None)]
    assert hash_columns([with_null[1:]]).tolist() == [*expected[1:], hash_key(None)]


def test_several_columns_hash_like_the_tuple_of_their_values() -> None:
    columns = [pa.array([1, 2]), pa.array(["a", None])]

    expected = [hash_key((1, "a")), hash_key((2, None))]
    assert hash_columns(columns).tolist() == expected
    assert hash_keys([(1, "a"), (2, None)]).tolist() == expected
    assert hash_columns([pa.StructArray.from_arrays(columns, ["a", "b"])]).tolist() == expected


def test_dictionary_encoded_column_hashes_like_its_values() -> None:
    values = ["b", "a", None, "b"]

    assert hash_columns([pa.array(values).dictionary_encode()]).tolist() == [hash_key(value) for value in values]


def test_numpy_scalars_hash_like_python_scalars() -> None:
    assert hash_key(np.int16(7)) == hash_key(7)
    assert hash_key(np.float32(1.5)) == hash_key(1.5)
    assert hash_key(np.bool_(True)) == hash_key(True)
    assert hash_key(np.str_("x")) == hash_key("x")
    assert hash_key(np.datetime64("2020-01-02T03:04:05", "ns")) == hash_key(dt.datetime(2020, 1, 2, 3, 4, 5))
    assert hash_keys([np.int64(7), 7]).tolist() == [hash_key(7)] * 2


def test_bool_int_and_float_are_different_keys() -> None:
    assert len({hash_key(1), hash_key(1.0), hash_key(True), hash_key("1"), hash_key(b"1")}) == 5


def test_equal_decimals_hash_alike_whatever_their_scale() -> None:
    assert hash_key(decimal.Decimal("1.50")) == hash_key(decimal.Decimal("1.5"))
    assert hash_key(decimal.Decimal("0.00")) == hash_key(decimal.Decimal("0"))
    assert hash_key(decimal.Decimal("100")) == hash_key(decimal.Decimal("1E2"))


def test_aware_datetimes_of_one_instant_are_the_same_key() -> None:
    noon_utc = dt.datetime(2024, 1, 1, 12, tzinfo=dt.UTC)
    assert hash_key(noon_utc) == hash_key(noon_utc.astimezone(dt.timezone(dt.timedelta(hours=5))))


def test_integers_beyond_64_bits_and_lone_surrogates_hash_in_lists_too() -> None:
    for keys in ([2**70, 5], [-(2**70), 2**64], ["\ud800", "a"]):
        assert hash_keys(keys).tolist() == [hash_key(key) for key in keys]


def test_subclasses_hash_like_their_base_classes() -> None:
    class Point(NamedTuple):
        x: int
        y: str

    class Colour(enum.Enum):
        RED = 1

    assert hash_key(Point(1, "a")) == hash_key((1, "a"))
    assert hash_keys([Point(1, "a"), Point(2, "b")]).tolist() == [hash_key((1, "a")), hash_key((2, "b"))]
    assert hash_key(Colour.RED) != hash_key(1)
    assert hash_key(uuid.UUID(int=5)) == hash_key(uuid.UUID(int=5))


def test_key_without_a_canonical_form_is_rejected_by_its_type() -> None:
    with pytest.raises(TypeMismatchError, match="object cannot be hashed"):
        hash_key(object())
    with pytest.raises(TypeMismatchError, match="set"):
        hash_keys([1, {2}])


def test_key_groups_are_in_range_and_spread_evenly() -> None:
    groups = key_groups(hash_keys(list(range(12_800))), 128)

    counts = np.bincount(groups, minlength=128)
    assert groups.dtype == np.int32
    assert len(counts) == 128
    # 100 are expected in each group. The bounds are five standard deviations of a uniform draw.
    assert counts.min() > 50
    assert counts.max() < 150


def test_hash_does_not_depend_on_the_process() -> None:
    program = "from flinkpy.records.key_hash import hash_key; print(hash_key(('a', 1.5, None, 2**70)))"
    result = subprocess.run(
        [sys.executable, "-c", program], env={"PYTHONHASHSEED": "7"}, capture_output=True, text=True, check=True
    )

    assert int(result.stdout) == hash_key(("a", 1.5, None, 2**70))


def test_long_strings_hash_alike_one_by_one_and_among_others() -> None:
    texts = ["x" * length + "é" for length in BORDER_LENGTHS]
    many = [f"{'y' * 300}{i}" for i in range(100)]

    for keys in (texts, [*texts, *many], [text.encode() for text in texts]):
        assert hash_keys(keys).tolist() == [hash_key(key) for key in keys]


def test_long_key_hashes_according_to_the_definition() -> None:
    # The result of the plain word-by-word loop.
    assert hash_key("0123456789" * 20_000) == 475846714


def test_long_key_needs_no_passes_over_the_other_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    alone: list[int] = []
    fold_long = key_hash._fold_long

    def noted(state: int, data: bytes) -> int:
        alone.append(len(data))
        return fold_long(state, data)

    monkeypatch.setattr(key_hash, "_fold_long", noted)
    hash_keys(["z" * 400_000, *(str(i) for i in range(1000))])

    # A pass over all keys hashes eight bytes of each. After a few passes the long key is hashed alone.
    assert len(alone) == 1
    assert alone[0] > 399_900


def test_compiled_hashes_are_those_of_numpy(monkeypatch):
    pytest.importorskip("numba")
    random_ = random.Random(5)
    texts = ["".join(random_.choices("aé\0😀x", k=random_.choice([0, 1, 7, 8, 9, 30, 400]))) for _ in range(300)]
    column = pa.array([None, *texts, ""])
    numbers = pa.array(range(-3, len(column) - 3))
    columns = [[column], [column.slice(5)], [numbers], [column, numbers], [pa.array(["", ""])]]
    monkeypatch.setattr(key_hash.kernels, "module", None)
    expected = [key_hash.hash_columns(each).tolist() for each in columns]
    words = key_hash.hash_binary_column(column, 12345).tolist()

    key_hash.compile_hashes()
    assert key_hash.kernels.module is not None

    assert [key_hash.hash_columns(each).tolist() for each in columns] == expected
    assert key_hash.hash_binary_column(column, 12345).tolist() == words
