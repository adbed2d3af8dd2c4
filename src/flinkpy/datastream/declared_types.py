"""Types that are declared after the operation: `stream.map(f).returns(Types.INT())`.

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
    """See `StreamExtensions.returns`."""
    operator = stream.transformation
    if not isinstance(operator, OperatorTransformation) or not specs.is_type_declarable(operator.spec):
        raise TypeError("returns: what this operation gives is decided by its input, not by a function")
    if any(_reads(one, operator) for one in stream.get_execution_environment().get_transformations()):
        raise UserError(f"returns: '{operator.name}' is read already; declare its type before anything else")
    declared = checks.output_type_of(type_info)
    operator.spec = replace(operator.spec, output_type=declared)
    operator.output_type = declared


def _reads(reader: Transformation, operator: OperatorTransformation) -> bool:
    """Directly, or through partitionings and unions."""
    pending = list(reader.inputs)
    while pending:
        one = pending.pop()
        if one is operator:
            return True
        if not isinstance(one, OperatorTransformation):
            pending.extend(one.inputs)
    return False
