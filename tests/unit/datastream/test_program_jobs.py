"""The program and the job listeners of an environment, and types that `returns` declares."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flinkpy.common import Configuration, JobListener, Types
from flinkpy.common.errors import JobSubmissionError, RpcUnavailableError, UserError
from flinkpy.datastream import MapFunction, StreamExecutionEnvironment
from flinkpy.security import ClusterSecret


@pytest.fixture
def env() -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment(Configuration())


class Told(JobListener):
    def __init__(self) -> None:
        self.calls: list[Any] = []

    def on_job_submitted(self, job_client: Any, error: BaseException | None) -> None:
        self.calls.append((job_client, type(error)))

    def on_job_executed(self, job_execution_result: Any, error: BaseException | None) -> None:
        raise AssertionError("nothing was executed")


def test_listener_is_told_of_a_job_that_cannot_be_submitted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ClusterSecret.load_or_create(tmp_path / "secret")
    monkeypatch.setenv("FLINKPY_SECRET_FILE", str(tmp_path / "secret"))
    env = StreamExecutionEnvironment.create_remote_environment("127.0.0.1", 1, 3)
    listener = Told()
    env.register_job_listener(listener)
    env.from_sequence(1, 2).print()

    with pytest.raises(RpcUnavailableError):
        env.execute()
    assert listener.calls == [(None, RpcUnavailableError)]

    assert env.get_job_listeners() == [listener]
    env.clear_job_listeners()
    assert env.get_job_listeners() == []
    env.from_sequence(1, 2).print()
    with pytest.raises(RpcUnavailableError):
        env.execute_async()
    assert len(listener.calls) == 1
    with pytest.raises(TypeError, match="is not a JobListener"):
        env.register_job_listener(print)  # type: ignore[arg-type]


def test_environments_can_be_created_for_local_and_remote_execution() -> None:
    local = StreamExecutionEnvironment.create_local_environment(3, Configuration().set_string("pipeline.name", "mine"))
    remote = StreamExecutionEnvironment.create_remote_environment("far", 7000)

    assert local.get_configuration().get_string("execution.target", "") == "local"
    assert local.get_parallelism() == 3
    assert local.get_configuration().get_string("pipeline.name", "") == "mine"
    assert remote.get_configuration().get_string("jobmanager.rpc.address", "") == "far"
    assert remote.get_configuration().get_integer("jobmanager.rpc.port", 0) == 7000


def test_graph_contains_the_program_so_far(env: StreamExecutionEnvironment) -> None:
    env.from_sequence(1, 2).map(str).print()

    assert [one.name for one in env.get_transformations()] == ["Map", "Sink: Print to Std. Out"]
    assert [node.name for node in env.get_stream_graph(False).nodes] == [
        "Source: Sequence Source",
        "Map",
        "Sink: Print to Std. Out",
    ]
    assert len(env.get_stream_graph().nodes) == 3
    assert env.get_transformations() == []
    with pytest.raises(JobSubmissionError, match="No operators defined in streaming topology"):
        env.get_stream_graph()


def test_type_may_be_declared_after_the_function(env: StreamExecutionEnvironment) -> None:
    stream = env.from_sequence(1, 2).map(str).returns(Types.STRING())
    keyed = stream.key_by(len, Types.INT())

    assert stream.get_type() == Types.STRING()
    assert keyed.get_key_type() == Types.INT()
    assert keyed.get_key_selector().get_key("ab") == 2
    assert keyed.map(lambda value: [value]).returns([Types.STRING()]).get_type() == Types.ROW([Types.STRING()])
    types = [one.spec.output_type for one in env.get_transformations()]
    assert types == [Types.STRING(), Types.ROW([Types.STRING()])]


def test_type_determined_by_the_operation_cannot_be_declared(env: StreamExecutionEnvironment) -> None:
    stream = env.from_sequence(1, 2)
    for operation in (
        stream.filter(bool),
        stream.key_by(abs).reduce(max),
        stream.key_by(abs).filter(bool),
        stream.rebalance(),
    ):
        with pytest.raises(TypeError, match="follows from its input"):
            operation.returns(Types.INT())


def test_type_cannot_be_declared_once_it_was_used(env: StreamExecutionEnvironment) -> None:
    class Text(MapFunction):
        def map(self, value: Any) -> Any:
            return str(value)

    stream = env.from_sequence(1, 2).map(Text())
    stream.rebalance().map(len)

    with pytest.raises(UserError, match="another operation reads 'Map' already"):
        stream.returns(Types.STRING())
