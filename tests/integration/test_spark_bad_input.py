"""Each mistake in the configuration or use of Spark causes one clear error."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from clusters import RunningCluster, StartCluster
from ports import own_port
from spark_support import connect_server, require_spark, spark_cluster, spark_environment

from flinkpy.common.errors import JobExecutionError, UnsupportedOperationError
from flinkpy.datastream.functions import SourceFunction

__all__ = ["spark_cluster"]

pytestmark = pytest.mark.timeout(600)


def error_of(cluster: RunningCluster, **properties: str) -> str:
    env = spark_environment(cluster, 2, **properties)
    with pytest.raises(JobExecutionError) as caught:
        list(env.from_collection([1, 2]).map(str).name("Text").execute_and_collect())
    return str(caught.value).splitlines()[-1]


def test_the_error_names_a_master_that_does_not_answer(spark_cluster: RunningCluster) -> None:
    port = own_port()
    for scheme in ("spark", "sc"):
        error = error_of(spark_cluster, **{"execution.batch.spark.master": f"{scheme}://127.0.0.1:{port}"})
        assert f"the master of Spark does not answer: 127.0.0.1:{port}: " in error


def test_an_invalid_master_url_is_refused(spark_cluster: RunningCluster) -> None:
    error = error_of(spark_cluster, **{"execution.batch.spark.master": "mesos://host"})
    assert "'mesos://host' is not a master of Spark: expected local[n]" in error


def test_the_error_names_executors_without_a_python_interpreter(spark_cluster: RunningCluster) -> None:
    error = error_of(spark_cluster, **{"execution.batch.spark.conf.spark.pyspark.python": "/nowhere/python9"})
    assert "have no Python '/nowhere/python9': set execution.batch.spark.conf.spark.pyspark.python" in error


@pytest.mark.chaos
@pytest.mark.parametrize("version", ["3.8", "3.10", "3.12", "3.13"])
def test_executors_of_another_python_version_are_refused(spark_cluster: RunningCluster, version: str) -> None:
    """Python 3.8 cannot even import Spark's modules."""
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    installed = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python{version}"))
    # A python3.8 on the path may be a script of pyenv that finds no interpreter.
    python = str(installed[-1]) if installed else shutil.which(f"python{version}")
    if python is None or version == here:
        pytest.skip(f"needs a Python {version} that is not the one of this test")
    error = error_of(spark_cluster, **{"execution.batch.spark.conf.spark.pyspark.python": python})
    assert f"run Python {version}, but this program runs Python {here}: set execution.batch.spark.conf." in error


@pytest.mark.chaos
def test_the_error_names_a_module_that_the_python_of_executors_does_not_have(spark_cluster: RunningCluster) -> None:
    """The executors run the interpreter that the environment of this test was made of."""
    python = os.path.join(sys.base_prefix, "bin", "python3")
    if sys.prefix == sys.base_prefix or not os.path.exists(python):
        pytest.skip("needs a virtual environment, and an interpreter without packages")
    error = error_of(spark_cluster, **{"execution.batch.spark.conf.spark.pyspark.python": python})
    assert "have a Python without the module '" in error
    assert "install flinkpy's dependencies (pip install flinkpy)" in error


@pytest.mark.chaos
def test_the_error_names_the_setting_of_a_connect_server_with_another_python(
    spark_cluster: RunningCluster, tmp_path: Path
) -> None:
    with connect_server(tmp_path, python="/nowhere/python9") as address:
        error = error_of(spark_cluster, **{"execution.batch.spark.master": address})
    assert "have no Python '/nowhere/python9': set PYSPARK_PYTHON in the environment of the Spark Connect" in error


class Endless(SourceFunction):
    def run(self, context: Any) -> None:
        while True:
            context.collect(1)

    def cancel(self) -> None:
        return


def test_an_unbounded_source_is_refused_before_anything_runs(spark_cluster: RunningCluster) -> None:
    env = spark_environment(spark_cluster)
    env.add_source(Endless(), "endless").map(str).print()
    with pytest.raises(UnsupportedOperationError, match=r"Unbounded: 'Source: endless'"):
        env.generate_job_graph()


@pytest.mark.parametrize(
    ("java", "message"),
    [
        (None, "JAVA_HOME is {home}, which has no bin/java: install Java 17 (on Debian: apt install"),
        pytest.param(
            'openjdk version "11.0.2"',
            "{home}/bin/java is Java 11: install Java 17 (on Debian: apt install",
            marks=pytest.mark.chaos,
        ),
    ],
)
def test_a_missing_or_wrong_java_is_an_error_that_says_what_to_install(
    start_cluster: StartCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, java: str | None, message: str
) -> None:
    home = tmp_path / "java"
    (home / "bin").mkdir(parents=True)
    if java is not None:
        (home / "bin" / "java").write_text(f"#!/bin/sh\necho '{java}' >&2\n")
        (home / "bin" / "java").chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(home))
    cluster = start_cluster(num_task_executors=1, slots=4)
    assert message.format(home=home) in error_of(cluster)


def test_a_missing_pyspark_is_an_error_that_names_the_extra_to_install(
    start_cluster: StartCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        textwrap.dedent(
            """
            import sys
            class _Without:
                from importlib.machinery import BuiltinImporter, FrozenImporter, PathFinder
                finders = (BuiltinImporter, FrozenImporter, PathFinder)
                def find_spec(self, name, path=None, target=None):
                    if name.partition(".")[0] == "pyspark":
                        return None
                    for finder in self.finders:
                        spec = finder.find_spec(name, path, target)
                        if spec is not None:
                            return spec
                    return None
            sys.meta_path[:] = [*(f for f in sys.meta_path if "Editable" in repr(f)), _Without()]
            """
        )
    )
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    cluster = start_cluster(num_task_executors=1, slots=4)
    assert "the Spark backend needs pyspark: pip install 'flinkpy[spark]'" in error_of(cluster)


@pytest.fixture(autouse=True)
def _needs_spark() -> None:
    require_spark()
