"""The tables of `create_operator`: every spec has an operator, and every operator class exists."""

from __future__ import annotations

import pytest

from flinkpy.graph import operator_specs as specs
from flinkpy.streaming.operators import factory
from flinkpy.streaming.operators.stream_operator import StreamOperator
from flinkpy.streaming.operators.table.factory import ASYNC_LOOKUP_JOIN, TABLE_OPERATORS, table_operator_class

TABLES = {
    "one input": factory.ONE_INPUT_OPERATORS,
    "two inputs": factory.TWO_INPUT_OPERATORS,
    "function": factory.FUNCTION_OPERATORS,
}
BASE_CLASSES = {specs.OperatorSpec, specs.KeyedSpec, specs.KeyedMultipleInputSpec, specs.KeyedTwoInputSpec}


def spec_types() -> set[type]:
    types = [value for value in vars(specs).values() if isinstance(value, type)]
    return {spec for spec in types if issubclass(spec, specs.OperatorSpec)}


def test_every_spec_has_exactly_one_operator() -> None:
    known = [*factory.ROW_STEPS, *factory._FACTORIES, *(spec for table in TABLES.values() for spec in table)]
    known = [spec for spec in known if spec.__module__ == specs.__name__]
    assert len(known) == len(set(known))
    assert set(known) == spec_types() - BASE_CLASSES


@pytest.mark.parametrize(
    "path", sorted({*factory.PARTITION_OPERATORS.values()}.union(*(table.values() for table in TABLES.values())))
)
def test_a_path_in_a_table_leads_to_an_operator(path: str) -> None:
    found = factory.operator_class(path)
    assert issubclass(found, StreamOperator)


@pytest.mark.parametrize("path", sorted({*TABLE_OPERATORS.values(), ASYNC_LOOKUP_JOIN}))
def test_a_path_of_a_table_operator_leads_to_it(path: str) -> None:
    found = table_operator_class(path)
    # A function chooses between several classes.
    assert issubclass(found, StreamOperator) if isinstance(found, type) else found.__name__.startswith("create_")
