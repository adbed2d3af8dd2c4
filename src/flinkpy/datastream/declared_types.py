"""Declares types after the operation, as in `stream.map(f).returns(Types.INT())`.

Source: org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator.returns.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from flinkpy.common.errors import UserError
from flinkpy.datastream import function_checks as checks
from flinkpy.graph import operator_specs as specs
from flinkpy.graph.transformation import OperatorTransformation, Transformation

if TYPE_CHECKING:
    from flinkpy.datastream.base_stream import DataStream


def declare_type(stream: DataStream, type_info: Any) -> None:
    """Implements `DataStream.returns`."""
    operator = stream.transformation
    if not isinstance(operator, OperatorTransformation) or not specs.is_type_declarable(operator.spec):
        raise TypeError("returns: the type of this operation's results follows from its input and cannot be declared")
    if any(_reads(one, operator) for one in stream.get_execution_environment().get_transformations()):
        raise UserError(f"returns: another operation reads '{operator.name}' already; declare the type before")
    declared = checks.output_type_of(type_info)
    operator.spec = replace(operator.spec, output_type=declared)
    operator.output_type = declared


def _reads(reader: Transformation, operator: OperatorTransformation) -> bool:
    """Returns True if the reader reads the operator, directly or through partitionings and unions."""
    pending = list(reader.inputs)
    while pending:
        one = pending.pop()
        if one is operator:
            return True
        if not isinstance(one, OperatorTransformation):
            pending.extend(one.inputs)
    return False
