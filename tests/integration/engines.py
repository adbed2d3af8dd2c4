"""The engines that run batch programs, for tests whose results must be the same on all of them.

`ENGINES` maps a name to the properties of a job. `engine_properties(name)` skips the test if its engine cannot run.
`SameResults` runs a program on two engines and compares the results.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from clusters import RunningCluster, SharedCluster
from java_archives import JAVA_OPTIONS
from job_support import environment
from requirements import require_spark

from flinkpy.common import Row
from flinkpy.datastream import DataStream, StreamExecutionEnvironment

ENGINES: dict[str, dict[str, str]] = {
    "native-batch": {"execution.runtime-mode": "BATCH", "execution.batch.backend": "native"},
    "native-streaming": {"execution.runtime-mode": "STREAMING"},
    # The same engine as native-batch, in the process of the test.
    "local-threads": {
        "execution.runtime-mode": "BATCH",
        "execution.batch.backend": "native",
        "execution.target": "local-threads",
    },
    "spark": {
        "execution.runtime-mode": "BATCH",
        "execution.batch.backend": "spark",
        "execution.batch.spark.master": "local[2]",
        "execution.batch.spark.conf.spark.driver.extraJavaOptions": JAVA_OPTIONS,
        "execution.batch.spark.start-timeout": "4 min",
        # Tables of tests are small. A shuffle with the default of 200 partitions would take longer than the test.
        "execution.batch.spark.conf.spark.sql.shuffle.partitions": "2",
    },
}

#: Builds the result stream of a program, or several result streams by name.
Build = Callable[[StreamExecutionEnvironment], "DataStream | dict[str, DataStream]"]


def engine_properties(engine: str) -> dict[str, str]:
    """Returns the options that make a job run on the engine."""
    if engine == "spark":
        require_spark()
    return dict(ENGINES[engine])


@pytest.fixture(scope="session")
def _engine_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedCluster]:
    yield from SharedCluster.of_session(tmp_path_factory, num_task_executors=1, slots=6)


@pytest.fixture
def engine_cluster(_engine_cluster: SharedCluster) -> Iterator[RunningCluster]:
    """A cluster of one TaskExecutor for all tests of a pytest worker. A Spark session belongs to one TaskExecutor and
    starts slowly.
    """
    yield from _engine_cluster.lend()


def run_on(engine: str, cluster: RunningCluster, build: Build, parallelism: int = 2, **properties: str) -> list[Any]:
    """Returns the program's results in any order. For several streams, they are pairs of name and result."""
    env = environment(cluster, parallelism, **{**engine_properties(engine), **properties})
    made = build(env)
    if isinstance(made, dict):
        named = [stream.map(_with_name(name)) for name, stream in made.items()]
        made = named[0].union(*named[1:])
    with made.execute_and_collect() as results:  # type: ignore[union-attr]
        return [plain(result) for result in results]


def _with_name(name: str) -> Callable[[Any], Any]:
    return lambda value: (name, plain(value))


def plain(value: Any) -> Any:
    """Returns a result in a form that can be compared and hashed: rows are tuples, and NaN equals itself."""
    if isinstance(value, Row):
        return tuple(plain(each) for each in value)
    if isinstance(value, tuple | list):
        return tuple(map(plain, value))
    if isinstance(value, dict):
        return tuple(sorted((plain(key), plain(each)) for key, each in value.items()))
    return "NaN" if isinstance(value, float) and value != value else value


class SameResults:
    """Runs programs on an engine and on a reference engine, and asserts equal multisets of results.

    The reference is native-batch if streaming and batch mode differ by design.
    """

    def __init__(self, engine: str, cluster: RunningCluster, known: dict[Any, list[Any]], test: str) -> None:
        self.engine = engine
        self._test = test
        self._cluster = cluster
        #: The results of the reference engine, computed once per program.
        self._known = known

    def __call__(
        self, build: Build, like: str = "native-streaming", parallelism: int = 2, **properties: str
    ) -> list[Any]:
        """Returns the sorted results. `like` is the reference engine."""
        engine_properties(self.engine)
        key = (self._test, build.__qualname__, like, parallelism)
        if key not in self._known:
            self._known[key] = run_on(like, self._cluster, build, parallelism, **properties)
        expected = self._known[key]
        results = (
            expected if self.engine == like else run_on(self.engine, self._cluster, build, parallelism, **properties)
        )
        assert Counter(results) == Counter(expected), f"{self.engine} differs from {like}"
        return sorted(results, key=repr)


@pytest.fixture(scope="module")
def _known_results() -> dict[Any, list[Any]]:
    return {}


@pytest.fixture(params=["native-batch", pytest.param("local-threads", marks=pytest.mark.differential), "spark"])
def same_results(
    request: pytest.FixtureRequest, engine_cluster: RunningCluster, _known_results: dict[Any, list[Any]]
) -> SameResults:
    """`same_results(build)` compares an engine of batch mode with streaming mode."""
    test = request.node.name.replace(request.param, "")
    return SameResults(request.param, engine_cluster, _known_results, test)
