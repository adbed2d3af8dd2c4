from __future__ import annotations

import datetime
import pickle

import pytest

from flinkpy.common import Instant, Row, Types
from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.common.typeinfo import RowTypeInfo, TupleTypeInfo, TypeInformation


def test_row_type_has_named_fields() -> None:
    row_type = Types.ROW_NAMED(["a", "b"], [Types.STRING(), Types.INT()])

    assert row_type.get_field_names() == ["a", "b"]
    assert row_type.get_field_index("b") == 1
    with pytest.raises(ValueError, match="no field 'c'"):
        row_type.get_field_index("c")
    assert row_type.get_field_types() == [Types.STRING(), Types.INT()]
    assert str(row_type) == "RowTypeInfo(a: String, b: Integer)"
    assert Types.ROW([Types.STRING()]).get_field_names() == ["f0"]
    assert str(Types.ROW([Types.STRING()])) == "RowTypeInfo(String)"


def test_types_are_equal_by_structure() -> None:
    assert RowTypeInfo([Types.STRING()]) == RowTypeInfo([Types.STRING()], ["f0"])
    assert RowTypeInfo([Types.STRING()]) != RowTypeInfo([Types.STRING()], ["a"])
    assert TupleTypeInfo([Types.STRING()]) != RowTypeInfo([Types.STRING()])
    assert Types.LIST(Types.INT()) == Types.LIST(Types.INT())
    assert Types.LIST(Types.INT()) != Types.LIST(Types.LONG())
    assert Types.MAP(Types.INT(), Types.LONG()) != Types.MAP(Types.LONG(), Types.INT())
    assert len({Types.INT(), Types.INT(), Types.LONG()}) == 2


def test_text_forms() -> None:
    assert str(Types.TUPLE([Types.STRING(), Types.INT()])) == "TupleTypeInfo(String, Integer)"
    assert str(Types.MAP(Types.STRING(), Types.LONG())) == "MapTypeInfo<String, Long>"
    assert str(Types.PRIMITIVE_ARRAY(Types.INT())) == "PrimitiveArrayTypeInfo<Integer>"
    assert str(Types.PICKLED_BYTE_ARRAY()) == "PickledByteArrayTypeInfo"


@pytest.mark.parametrize(
    ("type_info", "value"),
    [
        (Types.SQL_DATE(), datetime.date(2024, 2, 29)),
        (Types.SQL_TIME(), datetime.time(23, 59, 59, 999_999)),
        (Types.SQL_TIMESTAMP(), datetime.datetime(2024, 2, 29, 1, 2, 3, 4)),
        (Types.INSTANT(), Instant(12, 345_000)),
        (Types.TUPLE([Types.SQL_DATE(), Types.INT()]), (datetime.date(1969, 12, 31), None)),
    ],
)
def test_internal_form_gives_the_value_back(type_info: TypeInformation, value: object) -> None:
    assert type_info.need_conversion()
    assert type_info.from_internal_type(type_info.to_internal_type(value)) == value


def test_internal_form_of_a_row_matches_fields_by_name() -> None:
    row_type = Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.STRING()])

    assert row_type.to_internal_type(Row(b="x", a=1)) == (1, "x")
    assert row_type.to_internal_type({"a": 1}) == (1, None)
    assert row_type.from_internal_type((1, "x")) == Row(a=1, b="x")


def test_types_survive_pickling() -> None:
    type_info = Types.ROW_NAMED(["a"], [Types.MAP(Types.STRING(), Types.LIST(Types.BIG_DEC()))])

    assert pickle.loads(pickle.dumps(type_info)) == type_info


def test_wrong_element_types_are_refused() -> None:
    with pytest.raises(TypeError, match="primitive array"):
        Types.PRIMITIVE_ARRAY(Types.STRING())
    with pytest.raises(TypeError, match="basic array"):
        Types.BASIC_ARRAY(Types.ROW([Types.INT()]))
    with pytest.raises(TypeError, match="field 1"):
        Types.TUPLE([Types.INT(), int])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="distinct"):
        Types.ROW_NAMED(["a", "a"], [Types.INT(), Types.INT()])


def test_java_type_does_not_exist() -> None:
    with pytest.raises(UnsupportedOperationError, match="no JVM"):
        Types.INT().get_java_type_info()
