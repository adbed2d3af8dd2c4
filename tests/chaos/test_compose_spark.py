"""The Spark cluster of docker-compose.yml accepts work only from TaskExecutors that know its secret."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from compose_cluster import ComposeCluster
from namespaces import Network, require_namespaces
from spark_support import require_spark
from zookeeper_server import require_zookeeper

PROGRAM = """
from flinkpy.datastream import RuntimeExecutionMode, StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_runtime_mode(RuntimeExecutionMode.BATCH)
env.set_parallelism(2)
numbers = env.from_sequence(1, 1000).map(lambda number: (number % 10, number))
sums = numbers.key_by(lambda pair: pair[0]).reduce(lambda one, other: (one[0], one[1] + other[1]))
with sums.execute_and_collect() as results:
    print("summed", sum(pair[1] for pair in results))
"""


@pytest.fixture
def compose(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ComposeCluster]:
    require_namespaces()
    require_zookeeper()
    require_spark()
    with Network(tmp_path_factory.mktemp("compose")) as network:
        yield ComposeCluster(
            network,
            without=(),
            scale={"taskexecutor": 1},
            properties={"execution.batch.backend": "spark", "execution.batch.spark.start-timeout": "5 min"},
        )


@pytest.mark.timeout(0)
def test_a_batch_job_runs_in_spark(compose: ComposeCluster) -> None:
    compose.up()
    with compose.running_client("run", program=PROGRAM) as client:
        assert client.popen.wait(600) == 0, client.log[-4000:]
    assert f"summed {sum(range(1001))}" in client.log
    # Spark computed it: the worker has run an executor for an application that had to know the secret.
    assert "authentication enabled" in compose.containers["spark-worker"].log
    assert "ExecutorRunner: Launch command" in compose.containers["spark-worker"].log
