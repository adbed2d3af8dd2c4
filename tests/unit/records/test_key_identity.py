"""The identity of keys, and the keys that user functions see."""

from __future__ import annotations

import copy
import datetime as dt
import enum
import math
import pickle
import uuid
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import pytest

from flinkpy.common import Row, Types
from flinkpy.common.errors import TypeMismatchError
from flinkpy.common.time import Instant
from flinkpy.records.declared_keys import as_declared
from flinkpy.records.key_hash import hash_key, hash_keys
from flinkpy.records.key_identity import TypedKey, state_key, state_keys, user_key, user_keys
from flinkpy.records.namespaced_key import NamespacedKey
from flinkpy.state.rocksdb.key_codec import decode_state_key, encode


class Colour(enum.IntEnum):
    RED = 1


class Letter(enum.StrEnum):
    A = "a"


class Point(NamedTuple):
    x: Any
    y: Any


class Name(str):
    __slots__ = ()


NAN, OTHER_NAN = float("nan"), -float("nan")
CET = dt.timezone(dt.timedelta(hours=1))

#: All of these are different keys.
DISTINCT: list[Any] = [
    4, 4.0, 1, 1.0, True, Decimal(1), Colour.RED, 0, 0.0, -0.0, False, Decimal(0), NAN, Decimal("NaN"), float("inf"),
    Decimal("Infinity"), 2**70, float(2**70), "a", b"a", Letter.A, Name("a"), None, "None", "", b"", (),
    dt.date(2024, 1, 1), dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 1, tzinfo=dt.UTC), dt.time(0),
    dt.time(0, tzinfo=dt.UTC), dt.timedelta(1), uuid.UUID(int=1), Instant(0, 0), Instant(0, 1),
    (1, 2), (1, 2.0), (1.0, 2), (True, 2), (1, (2, NAN)), (1, (2, 0.0)), (1, (2, -0.0)), Point(1, 2), Point(1, 2.0),
    Row(1, 2), Row(1, 2.0), Row(x=1, y=2), Row(x=1, y=True), (NAN,), (None,), ("a", b"a"),
]  # fmt: skip

#: The keys of each pair are the same key.
SAME: list[tuple[Any, Any]] = [
    (NAN, OTHER_NAN),
    ((1, (NAN, "a")), (1, (OTHER_NAN, "a"))),
    (Row(NAN, 1), Row(OTHER_NAN, 1)),
    (np.int64(4), 4),
    (np.float32(0.5), 0.5),
    (np.bool_(True), True),
    (np.str_("a"), "a"),
    ((np.int8(1), np.float64(NAN)), (1, OTHER_NAN)),
    (np.datetime64("2024-01-01T00:00:00", "ns"), dt.datetime(2024, 1, 1)),
    (Decimal("1.0"), Decimal("1.00")),
    (Decimal("1E+2"), Decimal("100")),
    (Decimal("-0"), Decimal("0.00")),
    (Point(Decimal("1.0"), 2), Point(Decimal("1.00"), 2)),
    (Decimal("1E+50"), Decimal(10) ** 50),
    (dt.datetime(2024, 1, 1, 1, tzinfo=CET), dt.datetime(2024, 1, 1, tzinfo=dt.UTC)),
    (dt.datetime(2024, 1, 1, fold=1), dt.datetime(2024, 1, 1)),
]


def test_keys_with_other_types_or_values_differ_in_dicts_and_in_the_database() -> None:
    assert len({state_key(key) for key in DISTINCT}) == len(DISTINCT)
    assert len({encode(state_key(key)) for key in DISTINCT}) == len(DISTINCT)


@pytest.mark.parametrize(("one", "other"), SAME, ids=repr)
def test_equal_keys_are_the_same_key_in_dicts_the_database_and_the_hash(one: Any, other: Any) -> None:
    assert state_key(one) == state_key(other)
    assert hash(state_key(one)) == hash(state_key(other))
    assert encode(state_key(one)) == encode(state_key(other))
    assert hash_key(one) == hash_key(other) == hash_key(state_key(one))


@pytest.mark.parametrize("key", DISTINCT, ids=repr)
def test_user_key_restores_the_key(key: Any) -> None:
    found = state_key(key)
    ways = [
        found,
        state_key(found),
        pickle.loads(pickle.dumps(found)),
        copy.deepcopy(found),
        decode_state_key(encode(found))[0],
        *state_keys([key]),
    ]
    for way in ways:
        assert way == found
        back = user_key(way)
        assert type(back) is type(key)
        assert repr(back) == repr(key)
    assert hash_keys([found]).tolist() == [hash_key(key)]
    pane = NamespacedKey((found, 1, 2))
    assert state_key(NamespacedKey((key, 1, 2))) == pane
    assert decode_state_key(encode(pane))[0] == pane
    assert hash_key(pane) == hash_key(key)
    assert repr(list(user_keys([pane]))) == repr([(key, 1, 2)])


def test_int_and_str_keys_are_their_own_state_keys() -> None:
    for keys in ([1, 2, 2**70], ["a", "b"], [(1, "a"), (2, None)], [1, "a", None, b"x"]):
        assert state_keys(keys) is keys
    assert not any(type(key) is TypedKey for key in map(state_key, [3, "a", (1, ("b", 2))]))


def test_lists_of_floats_and_mixed_tuples_have_the_state_keys_of_their_elements() -> None:
    for keys in ([1.0, NAN, -0.0, 0.0], [(1, 2.0), (1, 2)], [(1,), (1, 2)], [True, 1, 1.0, Decimal(1)]):
        assert state_keys(keys) == [state_key(key) for key in keys]
        assert hash_keys(state_keys(keys)).tolist() == [hash_key(key) for key in keys]


@pytest.mark.parametrize(
    ("key", "advice"),
    [
        ([1], "use a tuple"),
        ({"a": 1}, "a tuple of its sorted items"),
        ({1}, "a tuple of its sorted elements"),
        (bytearray(b"x"), "use bytes"),
        (np.array([1]), "use a tuple"),
        (object(), "cannot be hashed the same way in every process"),
        (frozenset({1}), "cannot be hashed the same way in every process"),
    ],
    ids=["list", "dict", "set", "bytearray", "array", "object", "frozenset"],
)
@pytest.mark.parametrize("wrap", [lambda key: key, lambda key: (1, key), Row])
def test_invalid_keys_are_rejected_everywhere_with_their_value(key: Any, advice: str, wrap: Any) -> None:
    for refuse in (state_key, hash_key, lambda one: state_keys([one]), lambda one: hash_keys([one])):
        with pytest.raises(TypeMismatchError) as raised:
            refuse(wrap(key))
        assert advice in str(raised.value)
        assert repr(key)[:50] in str(raised.value)


def test_declared_type_converts_keys_that_fit() -> None:
    assert as_declared([4, 4.5], Types.DOUBLE()) == [4.0, 4.5]
    assert [type(key) for key in as_declared([4, True], Types.DOUBLE())] == [float, float]
    assert [type(key) for key in as_declared([True, np.int64(3)], Types.LONG())] == [int, int]
    assert as_declared([[1, "a"], (2, "b")], Types.TUPLE([Types.INT(), Types.STRING()])) == [(1, "a"), (2, "b")]
    assert as_declared([(1, 2)], Types.TUPLE([Types.INT(), Types.DOUBLE()])) == [(1, 2.0)]
    assert type(as_declared([(1, 2)], Types.TUPLE([Types.INT(), Types.DOUBLE()]))[0][1]) is float
    assert as_declared([bytearray(b"x")], Types.PRIMITIVE_ARRAY(Types.BYTE())) == [b"x"]
    assert as_declared([dt.datetime(2024, 1, 1, 5)], Types.SQL_DATE()) == [dt.date(2024, 1, 1)]
    assert math.isclose(as_declared([0.1], Types.FLOAT())[0], 0.1, rel_tol=1e-6)


def test_keys_of_their_declared_type_are_not_converted() -> None:
    for keys, key_type in (
        ([1, 2, None], Types.INT()),
        (["a"], Types.STRING()),
        ([(1, "a")], Types.TUPLE([Types.LONG(), Types.STRING()])),
        ([(1, object())], Types.TUPLE([Types.LONG(), Types.PICKLED_BYTE_ARRAY()])),
        ([object()], None),
    ):
        assert as_declared(keys, key_type) is keys


@pytest.mark.parametrize(
    ("key", "key_type"),
    [
        (4.0, Types.INT()),
        ("4", Types.LONG()),
        (4, Types.STRING()),
        (1, Types.BOOLEAN()),
        ((1, 2.0), Types.TUPLE([Types.INT(), Types.INT()])),
        ((1,), Types.TUPLE([Types.INT(), Types.INT()])),
    ],
    ids=repr,
)
def test_declared_type_rejects_keys_that_do_not_fit(key: Any, key_type: Any) -> None:
    with pytest.raises(TypeMismatchError, match="the declared type of the key") as raised:
        as_declared([key], key_type)
    assert repr(key) in str(raised.value)
