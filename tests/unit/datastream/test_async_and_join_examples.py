"""The examples of docs/async_and_joins.md, as they stand there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from flinkpy.common import Types
from flinkpy.datastream import StreamExecutionEnvironment
from flinkpy.graph.operator_specs import AsyncWaitSpec, IntervalJoinSpec

DOCUMENT = Path(__file__).parents[3] / "docs" / "async_and_joins.md"


def example(name: str) -> dict[str, Any]:
    [code] = re.findall(rf"<!-- example: {name} -->\n```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(code, name, "exec"), names)
    return names


def test_the_async_example_looks_up_answers() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    answers = example("look_up")["with_answers"](env.from_sequence(1, 3))
    assert isinstance(answers.transformation.spec, AsyncWaitSpec)


def test_the_join_example_joins_orders_with_payments() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    orders = env.from_collection([], Types.ROW_NAMED(["id"], [Types.LONG()]))
    payments = env.from_collection([], Types.ROW_NAMED(["order_id"], [Types.LONG()]))
    spec = example("interval_join")["paid_within_an_hour"](orders, payments).transformation.spec
    assert isinstance(spec, IntervalJoinSpec)
    assert (spec.lower_bound_ms, spec.upper_bound_ms) == (0, 3_599_999)
