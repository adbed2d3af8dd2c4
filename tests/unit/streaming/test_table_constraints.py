"""Constraints of columns are checked before a sink."""

from __future__ import annotations

import pytest
from table_subtasks import TableSubtasks, row_info

from flinkpy.common.errors import TableRuntimeError
from flinkpy.graph.operator_specs import FieldKeySelector
from flinkpy.graph.table_specs import ConstraintEnforcerSpec
from flinkpy.sql.types import logical_types as lt

ROW = row_info(id=lt.BigIntType(), name=lt.VarCharType(lt.MAX_LENGTH), data=lt.VarBinaryType(lt.MAX_LENGTH))
LENGTHS = ((1, 3, False), (2, 2, True))


def enforcer(**options: object) -> TableSubtasks:
    spec = ConstraintEnforcerSpec(**{"not_null": (), **options}, input_types=(ROW,), output_type=ROW)  # type: ignore[arg-type]
    return TableSubtasks(spec, selectors=(FieldKeySelector(()),))


def test_a_null_in_a_not_null_column_is_an_error_that_names_it() -> None:
    with pytest.raises(TableRuntimeError, match=r"Column 'name' is NOT NULL, however, a null value is being written"):
        enforcer(not_null=(0, 1)).process([("+I", 1, "a", b"x"), ("+I", 2, None, b"x")])


def test_rows_with_such_a_null_are_dropped_if_that_is_asked_for() -> None:
    operator = enforcer(not_null=(0, 1), on_null="DROP")
    changes = [("+I", 1, "a", b"x"), ("+U", 2, None, b"x"), ("-U", 3, "c", None)]
    assert operator.process(changes) == [changes[0], changes[2]]
    assert operator.process([("+I", None, None, b"x")]) == []


def test_a_deletion_needs_its_key_only() -> None:
    operator = enforcer(not_null=(0, 1), key=(0,))
    assert operator.process([("-D", 1, None, None)]) == [("-D", 1, None, None)]
    with pytest.raises(TableRuntimeError, match="Column 'id' is NOT NULL"):
        operator.process([("-D", None, None, None)])


def test_values_of_another_length_are_cut_and_padded() -> None:
    operator = enforcer(lengths=LENGTHS, on_length="TRIM_PAD")
    assert operator.process([("+I", 1, "häuser", b"xyz"), ("+I", 2, "a", b"x"), ("+I", 3, None, None)]) == [
        ("+I", 1, "häu", b"xy"),
        ("+I", 2, "a", b"x\0"),
        ("+I", 3, None, None),
    ]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (("+I", 1, "häuser", b"xy"), r"Column 'name' is VARCHAR\(3\), however, a string of length 6 is being written"),
        (("+I", 1, "a", b"x"), r"Column 'data' is BINARY\(2\), however, a string of length 1 is being written"),
    ],
)
def test_values_of_another_length_are_an_error_if_that_is_asked_for(row: tuple[object, ...], message: str) -> None:
    with pytest.raises(TableRuntimeError, match=message):
        enforcer(lengths=LENGTHS, on_length="ERROR").process([row])


def test_lengths_are_not_looked_at_by_default() -> None:
    row = ("+I", 1, "häuser", b"xyz")
    assert enforcer(lengths=LENGTHS).process([row]) == [row]
