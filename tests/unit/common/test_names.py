"""Invalid names in a program raise one error that names the kind of name and the mistake."""

from __future__ import annotations

from typing import Any

import pytest

from flinkpy.common import Types
from flinkpy.common.accumulators import IntCounter
from flinkpy.common.clock import SystemClock
from flinkpy.common.errors import UserError
from flinkpy.common.names import MAX_NAME_CHARS
from flinkpy.datastream import OutputTag, ProcessFunction, StreamExecutionEnvironment
from flinkpy.streaming.operators.accumulator_registry import AccumulatorRegistry

BAD = "a\ud800"


class Nothing(ProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        return []


def program() -> tuple[StreamExecutionEnvironment, Any]:
    env = StreamExecutionEnvironment.get_execution_environment()
    return env, env.from_sequence(1, 2).map(lambda value: value)


@pytest.mark.parametrize(
    ("setter", "what"),
    [("name", "name of an operator"), ("uid", "uid of operator"), ("slot_sharing_group", "slot sharing group")],
)
@pytest.mark.parametrize("bad", [BAD, "n" * (MAX_NAME_CHARS + 1)], ids=["surrogate", "long"])
def test_bad_name_of_an_operator_is_refused_when_the_program_is_built(setter: str, what: str, bad: str) -> None:
    env, stream = program()
    getattr(stream, setter)(bad).print()

    with pytest.raises(UserError, match=what):
        env.generate_job_graph("job")


def test_bad_name_of_a_job_is_refused() -> None:
    env, stream = program()
    stream.print()

    with pytest.raises(UserError, match="name of the job is not valid text"):
        env.generate_job_graph(BAD)


def test_bad_id_of_a_side_output_is_refused() -> None:
    env, stream = program()
    stream.process(Nothing()).get_side_output(OutputTag(BAD, Types.LONG())).print()

    with pytest.raises(UserError, match="id of an OutputTag"):
        env.generate_job_graph("job")


def test_bad_value_of_an_option_is_refused_with_its_key() -> None:
    env, stream = program()
    stream.print()
    env.get_config().set_global_job_parameters({"mine": BAD})

    with pytest.raises(UserError, match=r"global-job-parameters\.mine"):
        env.generate_job_graph("job")


def test_bad_name_of_an_accumulator_is_refused() -> None:
    with pytest.raises(UserError, match="name of an accumulator"):
        AccumulatorRegistry(SystemClock()).add(BAD, IntCounter())
