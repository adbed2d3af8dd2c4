"""A driver in client mode passes configuration to its cluster, and files to its executors."""

from __future__ import annotations

import py_compile
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from ports import own_port

from flinkpy.common import errors
from flinkpy.common.errors import SparkError, SparkUnavailableError
from flinkpy.spark.java_gateway import submission
from flinkpy.spark.session_handles import _check_reachable
from flinkpy.spark.settings import SparkSettings, settings_of
from flinkpy.spark.translation.program import JobFacts
from flinkpy.spark.user_files import UserFiles
from flinkpy.spark.worker_files import SPARK_FILE
from flinkpy.streaming.tasks.environment import ShippedFiles

CONF = "execution.batch.spark.conf."


def settings(master: str, **conf: str) -> SparkSettings:
    return settings_of({"execution.batch.spark.master": master, **{f"{CONF}{key}": conf[key] for key in conf}})


def submitted(told: SparkSettings) -> dict[str, str]:
    """Returns the configuration on the command line."""
    command = submission("spark-submit", {**told.conf, "spark.master": told.master})
    assert command[0] == "spark-submit" and command[-1] == "pyspark-shell", "client mode, and PySpark's gateway"
    options = command[1:-1]
    assert set(options[::2]) == {"--conf"}
    return dict(option.split("=", 1) for option in options[1::2])


def test_yarn_gets_its_queue_files_and_login_before_the_context_exists() -> None:
    conf = {
        "spark.yarn.queue": "nightly",
        "spark.yarn.dist.archives": "hdfs:///envs/py311.tar.gz#env",
        "spark.kerberos.principal": "etl@EXAMPLE.ORG",
        "spark.kerberos.keytab": "/etc/etl.keytab",
        "spark.pyspark.python": "./env/bin/python",
        "spark.executor.memory": "8g",
        "spark.hadoop.fs.s3a.secret.key": "do-not-tell",
        "spark.authenticate.secret": "do-not-tell",
    }
    told = settings("yarn", **conf)
    command = submitted(told)
    for key in list(conf)[:4]:
        assert command[key] == conf[key]
    assert command["spark.master"] == "yarn"
    assert "do-not-tell" not in "".join(command.values())
    assert {key: told.conf[key] for key in conf} == conf, "the context is told everything"


def test_options_of_kubernetes_go_to_the_context_and_its_master_has_a_scheme() -> None:
    conf = {
        "spark.kubernetes.namespace": "etl",
        "spark.kubernetes.container.image": "registry/flinkpy-spark:1",
        "spark.kubernetes.authenticate.oauthToken": "do-not-tell",
        "spark.driver.host": "driver.etl.svc",
    }
    told = settings("k8s://api.example.org:6443", **conf)
    assert told.master == "k8s://https://api.example.org:6443"
    assert settings("k8s://http://localhost:8001").master == "k8s://http://localhost:8001"
    assert {key: told.conf[key] for key in conf} == conf
    assert "do-not-tell" not in "".join(submitted(told).values())
    assert told.conf.get("spark.python.daemon.module") is None, "executors are brought flinkpy when they run already"


def test_yarn_without_a_hadoop_configuration_is_an_error_that_names_the_variable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    monkeypatch.delenv("YARN_CONF_DIR", raising=False)
    with pytest.raises(SparkUnavailableError, match="neither HADOOP_CONF_DIR nor YARN_CONF_DIR is set"):
        _check_reachable(settings("yarn"))
    monkeypatch.setenv("YARN_CONF_DIR", "/etc/hadoop/conf")
    _check_reachable(settings("yarn"))


class FakeSpark:
    """Records the files for executors."""

    def __init__(self, files: Path) -> None:
        self.sent: set[str] = set()
        self.files = files
        self.artifacts: list[tuple[str, str]] = []

    def addArtifacts(self, path: str, **kind: bool) -> None:
        self.artifacts.append((next(iter(kind)), path))


def test_executors_on_other_hosts_get_flinkpy_and_the_files_of_the_job(tmp_path: Path) -> None:
    code, data, files = tmp_path / "code", tmp_path / "data", tmp_path / "files"
    for directory in (code, data, files):
        directory.mkdir()
    (code / "brought.py").write_text("WORD = 1\n")
    (data / "table.txt").write_text("a table")
    py_compile.compile(errors.__file__)
    spark: Any = FakeSpark(files)
    shipped = UserFiles(ShippedFiles((str(code),), str(data)), settings("yarn"))
    facts = JobFacts(job_id="a", cached_files={"table": str(data / "table.txt")})
    job = shipped.send(spark, spark, facts)

    kinds = [kind for kind, _ in spark.artifacts]
    assert kinds == ["pyfile", "archive", "archive", "file"]
    package, modules, working, table = (path for _, path in spark.artifacts)
    with zipfile.ZipFile(package) as archive:
        assert {"flinkpy/__init__.py", "flinkpy/spark/translation/worker.py"} <= set(archive.namelist())
    importing = "import flinkpy.common.errors as module; print(module.__file__)"
    isolated = [sys.executable, "-S", "-E", "-c", f"import sys; sys.path.insert(0, {package!r}); {importing}"]
    found = subprocess.run(isolated, capture_output=True, text=True, check=True).stdout.strip()
    assert found == f"{package}/flinkpy/common/errors.pyc", "compiled already"
    with zipfile.ZipFile(modules.partition("#")[0]) as archive:
        assert archive.namelist() == ["brought.py"]
    assert job.files.python_path[0] == f"{SPARK_FILE}{modules.partition('#')[2]}", "where Spark unpacks it"
    assert job.files.working_directory == f"{SPARK_FILE}{working.partition('#')[2]}"
    assert job.cached_files == {"table": f"{SPARK_FILE}{Path(table).name}"}
    assert Path(table).read_text() == "a table"

    assert shipped.send(spark, spark, facts) == job
    assert len(spark.artifacts) == 4, "the same once only"


def test_the_error_of_a_driver_that_does_not_start_has_its_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs a `spark-submit` that ends at once, as with a wrong configuration of YARN."""
    pytest.importorskip("pyspark")
    (tmp_path / "bin").mkdir()
    submit = tmp_path / "bin" / "spark-submit"
    submit.write_text('#!/bin/sh\necho "told $*"\nexit 1\n')
    submit.chmod(0o755)
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    from flinkpy.spark.java_gateway import launch

    with pytest.raises(RuntimeError, match=r"its driver has ended: told --conf spark\.yarn\.queue=nightly"):
        launch({"spark.yarn.queue": "nightly", "spark.executor.cores": "2"}, tmp_path, 60)


def test_the_web_pages_of_a_driver_on_loopback_are_served_there_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark binds its pages, which need no login, to the address of a variable, or else to all addresses."""
    pytest.importorskip("pyspark")
    (tmp_path / "bin").mkdir()
    submit = tmp_path / "bin" / "spark-submit"
    submit.write_text('#!/bin/sh\necho "pages at <$SPARK_LOCAL_IP>"\nexit 1\n')
    submit.chmod(0o755)
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    monkeypatch.delenv("SPARK_LOCAL_IP", raising=False)
    from flinkpy.spark.java_gateway import launch

    with pytest.raises(RuntimeError, match=r"pages at <127\.0\.0\.1>"):
        launch(settings("local[2]").conf, tmp_path, 60)
    with pytest.raises(RuntimeError, match="pages at <>"):
        launch(settings("yarn").conf, tmp_path, 60)


def test_a_yarn_that_does_not_answer_is_an_error_that_names_its_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    address = f"127.0.0.1:{own_port()}"
    entry = f"<property><name>yarn.resourcemanager.address</name><value>{address}</value></property>"
    (tmp_path / "yarn-site.xml").write_text(f"<configuration>{entry}</configuration>")
    with pytest.raises(SparkError, match=f"YARN does not answer: {address}: .*yarn-site.xml"):
        _check_reachable(settings("yarn"))
