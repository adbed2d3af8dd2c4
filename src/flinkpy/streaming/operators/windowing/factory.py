"""create_window_operator: creates the operator that runs a WindowSpec."""

from __future__ import annotations

from typing import Any

from flinkpy.graph.operator_specs import WindowSpec
from flinkpy.streaming.operators.output import Output
from flinkpy.streaming.operators.stream_operator import OperatorContext
from flinkpy.streaming.operators.windowing.fixed_window_operator import FixedWindowOperator, is_fixed
from flinkpy.streaming.operators.windowing.session_window_operator import SessionWindowOperator, is_session
from flinkpy.streaming.operators.windowing.window_operator import WindowOperator


def create_window_operator(
    spec: WindowSpec, input_type: Any, context: OperatorContext, output: Output, side: dict[str, Output]
) -> WindowOperator:
    kind = FixedWindowOperator if is_fixed(spec) else SessionWindowOperator if is_session(spec) else WindowOperator
    return kind(spec, input_type, context, output, side)
