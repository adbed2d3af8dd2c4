"""Spark for tests: a flinkpy cluster whose jobs use Spark, a standalone Spark cluster, and a Connect server.

The Spark services are started from the jars of the installed pyspark, on loopback and free ports.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from clusters import RunningCluster, running_cluster
from engines import ENGINES
from java_archives import JAVA_OPTIONS
from job_support import environment
from ports import own_port
from requirements import require_spark

from flinkpy.datastream import StreamExecutionEnvironment

#: The time that Java may need to start on a loaded machine.
START_S = 240.0
SPARK_DEADLINE_S = 240.0

#: The Java packages that Spark's own scripts open to Spark.
OPENED_PACKAGES = (
    "java.lang",
    "java.lang.invoke",
    "java.lang.reflect",
    "java.io",
    "java.net",
    "java.nio",
    "java.util",
    "java.util.concurrent",
    "java.util.concurrent.atomic",
    "jdk.internal.ref",
    "sun.nio.ch",
    "sun.nio.cs",
    "sun.security.action",
    "sun.util.calendar",
)


@pytest.fixture(scope="module")
def spark_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    """A cluster of one TaskExecutor for the tests of a file that need other Spark sessions than `engine_cluster`."""
    require_spark()
    with running_cluster(tmp_path_factory.mktemp("spark"), num_task_executors=1, slots=6) as running:
        yield running


def spark_environment(cluster: RunningCluster, parallelism: int = 2, **properties: Any) -> StreamExecutionEnvironment:
    """Returns an environment for batch programs whose operators run in Spark on this host where possible."""
    return environment(
        cluster,
        parallelism,
        **{
            **ENGINES["spark"],
            "execution.batch.spark.progress-interval": "200 ms",
            **properties,
        },
    )


def java_processes_of(cluster: RunningCluster) -> list[psutil.Process]:
    """Returns the Spark drivers of the cluster's TaskExecutors."""
    found = []
    for service in cluster.task_executors:
        with suppress(psutil.NoSuchProcess):
            children = psutil.Process(service.popen.pid).children(recursive=True)
            found += [child for child in children if child.name() == "java"]
    return found


def kill_with_children(pid: int) -> None:
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        children = process.children(recursive=True)
        process.kill()
        for child in children:
            with suppress(psutil.NoSuchProcess):
                child.kill()
        psutil.wait_procs(children, timeout=10)


class JavaService:
    """A Java process that runs a class of Spark."""

    def __init__(self, directory: Path, name: str, arguments: list[str], environment: dict[str, str]) -> None:
        import pyspark

        home = Path(pyspark.__file__).parent
        self.log = directory / f"{name}.log"
        options = [
            *JAVA_OPTIONS.split(),
            "-Xmx512m",
            "-XX:+IgnoreUnrecognizedVMOptions",
            "--add-modules=jdk.incubator.vector",
        ]
        options += ["-Dio.netty.tryReflectionSetAccessible=true"]
        # In the order of Spark's own scripts: with another class path, Java does not use the archive of classes.
        (first,) = home.glob("jars/slf4j-api-*.jar")
        options += [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENED_PACKAGES]
        with self.log.open("wb") as log:
            self.popen = subprocess.Popen(
                ["java", *options, "-cp", f"{home}/conf:{first}:{home}/jars/*", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=directory,
                env={
                    **os.environ,
                    "SPARK_HOME": str(home),
                    "SPARK_LOCAL_IP": "127.0.0.1",
                    "SPARK_SCALA_VERSION": "2.13",
                    **environment,
                },
            )

    def stop(self) -> None:
        """Kills the process with all its children: executors and Python workers."""
        kill_with_children(self.popen.pid)
        self.popen.wait()


class StandaloneCluster:
    """A standalone Spark cluster: a master and workers."""

    def __init__(self, directory: Path, num_workers: int = 2) -> None:
        self._directory = directory
        self._environment = {"SPARK_NO_DAEMONIZE": "1", "PYSPARK_PYTHON": sys.executable}
        self.port, self._web_port = own_port(), own_port()
        self.services: list[JavaService] = []
        self.workers: list[JavaService] = []
        self._num_workers = num_workers

    def start(self) -> None:
        self._start("master", ["--port", str(self.port), "--webui-port", str(self._web_port)])
        _wait_for_port(self.port, self.services[0])
        arguments = ["--cores", "1", "--memory", "1g", "--webui-port", "0", self.master]
        self.workers = [self._start(f"worker-{number}", arguments) for number in range(self._num_workers)]
        deadline = time.monotonic() + START_S
        while self._num_registered() < self._num_workers:
            for service in self.services:
                _check(service, deadline)

    def _num_registered(self) -> int:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._web_port}/json/", timeout=5) as answer:
                return int(json.load(answer)["aliveworkers"])
        except (OSError, ValueError):
            # A master that starts first refuses connections, and then answers with a page that is not JSON.
            return 0

    @property
    def master(self) -> str:
        return f"spark://127.0.0.1:{self.port}"

    @property
    def properties(self) -> dict[str, str]:
        """The options that make a job run on this Spark cluster."""
        prefix = "execution.batch.spark.conf."
        return {
            "execution.batch.spark.master": self.master,
            f"{prefix}spark.driver.host": "127.0.0.1",
            f"{prefix}spark.driver.bindAddress": "127.0.0.1",
            f"{prefix}spark.pyspark.python": sys.executable,
            f"{prefix}spark.executor.memory": "512m",
            f"{prefix}spark.executor.extraJavaOptions": JAVA_OPTIONS,
            f"{prefix}spark.sql.shuffle.partitions": "4",
        }

    def stop(self) -> None:
        for service in reversed(self.services):
            service.stop()

    def _start(self, name: str, arguments: list[str]) -> JavaService:
        directory = self._directory / name
        directory.mkdir(parents=True)
        kind = "master.Master" if name == "master" else "worker.Worker"
        where = ["--host", "127.0.0.1"] + (["--work-dir", str(directory)] if name != "master" else [])
        # Otherwise each master would take submissions on the same port.
        options = ["-Dspark.master.rest.enabled=false"]
        command = [*options, f"org.apache.spark.deploy.{kind}", *where, *arguments]
        service = JavaService(directory, name, command, self._environment)
        self.services.append(service)
        return service


@contextmanager
def standalone_cluster(directory: Path, num_workers: int = 2) -> Iterator[StandaloneCluster]:
    cluster = StandaloneCluster(directory, num_workers)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


@contextmanager
def connect_server(directory: Path, port: int | None = None, python: str = sys.executable) -> Iterator[str]:
    """Runs a Spark Connect server with its own Spark of two cores, and yields its address. A task has two attempts."""
    port = port or own_port()
    settings = {
        "spark.master": "local[2,2]",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.local.dir": str(directory / "local"),
    }
    options = [f"-D{key}={value}" for key, value in settings.items()]
    service = JavaService(
        directory,
        "connect",
        [*options, "org.apache.spark.sql.connect.service.SparkConnectServer"],
        {"PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": python},
    )
    try:
        _wait_for_port(port, service)
        yield f"sc://127.0.0.1:{port}"
    finally:
        service.stop()


def _wait_for_port(port: int, service: JavaService) -> None:
    deadline = time.monotonic() + START_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            _check(service, deadline)


def _check(service: JavaService, deadline: float) -> None:
    assert service.popen.poll() is None, f"{service.log.name} has ended: {service.log.read_text()[-2000:]}"
    assert time.monotonic() < deadline, f"waited {START_S} s for {service.log.name}"
    time.sleep(0.1)
