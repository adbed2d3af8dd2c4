"""Types that PyFlink does not have, as columns and back: enums, sets and Either, alone and nested."""

from __future__ import annotations

import enum
import pickle
from typing import Any

import pytest

from flinkpy.common import Configuration, Either, Row, Types
from flinkpy.common.errors import TypeMismatchError
from flinkpy.datastream import StreamExecutionEnvironment
from flinkpy.records.batch import Batch
from flinkpy.records.lanes import columns_of, to_rows


class Color(enum.Enum):
    RED = (255, 0, 0)
    BLUE = (0, 0, 255)


@pytest.mark.parametrize(
    ("type_info", "rows"),
    [
        (Types.ENUM(Color), [Color.RED, None, Color.BLUE]),
        (Types.SET(Types.STRING()), [{"b", "a"}, None, set()]),
        (Types.SET(Types.ENUM(Color)), [{Color.RED, Color.BLUE}]),
        (
            Types.ROW_NAMED(["color", "tags"], [Types.ENUM(Color), Types.SET(Types.INT())]),
            [Row(color=Color.RED, tags={1, 2}), Row(color=None, tags=None)],
        ),
        (
            Types.EITHER(Types.STRING(), Types.INT()),
            [Either.Left("a"), None, Either.Right(7), Either.Left(None), Either.Right(None)],
        ),
        (
            Types.TUPLE([Types.EITHER(Types.TUPLE([Types.INT(), Types.SET(Types.INT())]), Types.LIST(Types.DOUBLE()))]),
            [(Either.Left((1, {2})),), (Either.Right([0.5, None]),), (None,)],
        ),
        (Types.MAP(Types.ENUM(Color), Types.LIST(Types.SET(Types.INT()))), [{Color.RED: [{1}, set()]}]),
    ],
)
def test_columns_restore_the_records(type_info: Any, rows: list[Any]) -> None:
    assert to_rows(Batch(columns_of(rows, type_info)), type_info).values == rows
    assert pickle.loads(pickle.dumps(type_info)) == type_info


def test_frozen_sets_become_sets_and_enums_are_encoded_by_name() -> None:
    columns = columns_of([(frozenset({2, 1}), Color.BLUE)], Types.TUPLE([Types.SET(Types.INT()), Types.ENUM(Color)]))

    assert columns.to_pylist() == [{"f0": [1, 2], "f1": "BLUE"}]


@pytest.mark.parametrize(
    ("type_info", "wrong"),
    [
        (Types.ENUM(Color), "RED"),
        (Types.SET(Types.INT()), [1]),
        (Types.SET(Types.INT()), {"x"}),
        (Types.EITHER(Types.STRING(), Types.INT()), "x"),
        (Types.EITHER(Types.STRING(), Types.INT()), Either.Right("x")),
    ],
)
def test_error_names_a_value_of_another_type(type_info: Any, wrong: Any) -> None:
    with pytest.raises(TypeMismatchError, match="record 1"):
        columns_of([None, wrong], type_info)


def test_either_has_a_value_on_one_side() -> None:
    left, right = Either.Left(1), Either.Right(1)
    assert (left.is_left(), left.is_right(), left.left(), right.right()) == (True, False, 1, 1)
    assert left == Either.Left(1) != right and len({left, right, Either.Left(1)}) == 2
    assert pickle.loads(pickle.dumps(right)) == right
    assert (repr(left), repr(Either.Right("x"))) == ("Left(1)", "Right('x')")
    with pytest.raises(ValueError, match=r"Left\(1\) has no right value"):
        left.right()
    with pytest.raises(ValueError, match=r"Right\(1\) has no left value"):
        right.left()
    with pytest.raises(TypeMismatchError, match=r"record 0, field right"):
        columns_of([Either.Right("x")], Types.EITHER(Types.STRING(), Types.INT()))


def test_types_have_text_forms_and_reject_wrong_classes() -> None:
    assert str(Types.ENUM(Color)) == "EnumTypeInfo<Color>"
    assert str(Types.SET(Types.INT())) == "SetTypeInfo<Integer>"
    assert str(Types.EITHER(Types.INT(), Types.STRING())) == "EitherTypeInfo<Integer, String>"
    assert Types.EITHER(Types.INT(), Types.STRING()) != Types.EITHER(Types.STRING(), Types.INT())
    assert Types.GENERIC(Color) == Types.PICKLED_BYTE_ARRAY()
    assert Types.ENUM(Color) != Types.ENUM(enum.Enum("Color", "RED"))
    with pytest.raises(TypeError, match=r"enum\.Enum class is needed"):
        Types.ENUM("Color")  # type: ignore[arg-type]


def test_enum_can_be_a_key_but_not_its_column() -> None:
    stream = StreamExecutionEnvironment(Configuration()).from_collection(
        [(Color.RED, {1})], Types.TUPLE([Types.ENUM(Color), Types.SET(Types.INT())])
    )

    assert stream.key_by(lambda value: value[0], Types.ENUM(Color)).get_key_type() == Types.ENUM(Color)
    for field in (0, "f1", (0, 1)):
        with pytest.raises(TypeError, match="cannot be a key itself; use a function"):
            stream.key_by(field)
