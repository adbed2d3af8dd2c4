from __future__ import annotations

import copy
import pickle

import pytest

from flinkpy.common import Row, RowKind


def test_fields_are_accessible_by_position_name_and_attribute() -> None:
    row = Row(id=1, name="a")

    assert (row[0], row["name"], row.name, row[0:2]) == (1, "a", "a", [1, "a"])
    assert list(row) == [1, "a"]
    assert len(row) == 2
    assert "name" in row
    assert "a" not in row
    assert "a" in Row(1, "a")


def test_row_of_names_is_a_factory() -> None:
    person = Row("name", "age")
    alice = person("Alice", 11)

    assert repr(alice) == "Row(name='Alice', age=11)"
    assert person("Bob").as_dict() == {"name": "Bob"}
    with pytest.raises(ValueError, match="expected 2 values"):
        person("Bob", 12, "more")


def test_text_form_shows_whether_there_are_names() -> None:
    assert repr(Row(f0=1, f1="hi")) == "Row(f0=1, f1='hi')"
    assert repr(Row(1, "hi")) == "<Row(1, 'hi')>"


def test_an_unknown_field_raises_an_error() -> None:
    row = Row(a=1)

    with pytest.raises(AttributeError):
        _ = row.b
    with pytest.raises(KeyError):
        _ = row["b"]
    with pytest.raises(AttributeError):
        row.b = 2
    with pytest.raises(ValueError, match="no field 'b'"):
        row["b"] = 2
    with pytest.raises(KeyError, match=r"Field names \['b'\] not exist in \['a'\]."):
        row.get_fields_by_names(["b"])


def test_kinds_are_part_of_equality() -> None:
    row = Row.of_kind(RowKind.DELETE, 1)

    assert row.get_row_kind() is RowKind.DELETE
    assert row != Row(1)
    row.set_row_kind(RowKind.INSERT)
    assert row == Row(1)
    assert [str(kind) for kind in RowKind] == ["+I", "-U", "+U", "-D"]


def test_equality_compares_names_only_if_both_have_them_and_ignores_their_order() -> None:
    assert Row(a=1) == Row(1)
    assert hash(Row(a=1)) == hash(Row(1))
    assert Row(a=1) != Row(b=1)
    assert Row(a=1, b=2) == Row(b=2, a=1)
    assert hash(Row(a=1, b=2)) == hash(Row(b=2, a=1))


def test_recursive_as_dict_converts_nested_rows() -> None:
    row = Row(a=1, b=Row(c=[Row(d=2)]))

    assert row.as_dict() == {"a": 1, "b": Row(c=[Row(d=2)])}
    assert row.as_dict(recursive=True) == {"a": 1, "b": {"c": [{"d": 2}]}}
    with pytest.raises(TypeError):
        Row(1).as_dict()


def test_pickle_and_copy_keep_everything() -> None:
    row = Row.of_kind(RowKind.UPDATE_AFTER, a=1, b=[2])

    for clone in (pickle.loads(pickle.dumps(row)), copy.deepcopy(row)):
        assert clone == row
        assert repr(clone) == repr(row)


def test_positional_and_named_values_do_not_mix() -> None:
    with pytest.raises(ValueError, match="both args and kwargs"):
        Row(1, a=2)
