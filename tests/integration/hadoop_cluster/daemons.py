"""HadoopCluster: a NameNode, a DataNode, a ResourceManager and a NodeManager, on loopback and free ports."""

from __future__ import annotations

import getpass
import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import psutil
from java_archives import JAVA_OPTIONS
from maven_jars import require_jars
from ports import own_port
from requirements import require_spark
from spark_support import START_S, kill_with_children

_HDFS = "org.apache.hadoop.hdfs.server"
_YARN = "org.apache.hadoop.yarn.server"
_OPTIONS = (
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-Xmx512m",
    "-Dorg.apache.logging.log4j.level=WARN",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
)
#: The memory and the processors that the NodeManager offers: enough for an ApplicationMaster and some small executors.
_NODE_MEMORY_MB, _NODE_CORES = 6144, 8


class HadoopCluster:
    """The daemons, and the configuration with which clients find them."""

    def __init__(self, directory: Path, jars: Path) -> None:
        self.configuration = directory / "conf"
        self._directory = directory
        self._jars = jars
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}
        self._web = f"127.0.0.1:{own_port()}"
        self._files_web = f"127.0.0.1:{own_port()}"
        self.file_system = f"hdfs://127.0.0.1:{own_port()}"

    def start(self) -> None:
        self._write_configuration()
        formatted = self._launch("format", f"{_HDFS}.namenode.NameNode", "-format", "-nonInteractive")
        self._daemons["resourcemanager"] = self._launch("resourcemanager", f"{_YARN}.resourcemanager.ResourceManager")
        self.start_node_manager()
        assert formatted.wait(START_S) == 0, self.log("format")
        self._daemons["namenode"] = self._launch("namenode", f"{_HDFS}.namenode.NameNode")
        self._daemons["datanode"] = self._launch("datanode", f"{_HDFS}.datanode.DataNode")
        host, port = self.file_system.removeprefix("hdfs://").split(":")
        self._wait(lambda: _accepts(host, int(port)), "the NameNode")
        self._wait(lambda: self._num_data_nodes() == 1, "the DataNode")
        self._wait(lambda: len(self._running_nodes()) == 1, "the NodeManager")

    def start_node_manager(self) -> None:
        self._daemons["nodemanager"] = self._launch("nodemanager", f"{_YARN}.nodemanager.NodeManager")

    @property
    def properties(self) -> dict[str, str]:
        """The options that make a job run on this YARN. The TaskExecutor needs HADOOP_CONF_DIR too."""
        import pyspark

        prefix = "execution.batch.spark.conf."
        return {
            "execution.batch.spark.master": "yarn",
            # Otherwise each application would send four hundred megabytes of jars to HDFS.
            f"{prefix}spark.yarn.jars": f"local:{Path(pyspark.__file__).parent}/jars/*",
            f"{prefix}spark.yarn.am.memory": "384m",
            f"{prefix}spark.yarn.am.extraJavaOptions": JAVA_OPTIONS,
            f"{prefix}spark.driver.host": "127.0.0.1",
            f"{prefix}spark.driver.bindAddress": "127.0.0.1",
            f"{prefix}spark.pyspark.python": sys.executable,
            f"{prefix}spark.executor.instances": "2",
            f"{prefix}spark.executor.memory": "512m",
            f"{prefix}spark.executor.extraJavaOptions": JAVA_OPTIONS,
            f"{prefix}spark.sql.shuffle.partitions": "4",
        }

    def applications(self) -> list[dict[str, Any]]:
        """Returns the applications that YARN knows, the newest last."""
        found = (self._ask("apps")["apps"] or {}).get("app", [])
        return sorted(found, key=lambda application: str(application["id"]))

    def final_status(self, application: str) -> str:
        """Returns how an application has ended; `UNDEFINED` if it has not."""
        return str(self._ask(f"apps/{application}")["app"]["finalStatus"])

    def num_attempts(self, application: str) -> int:
        """Returns how many ApplicationMasters an application has had."""
        return len(self._ask(f"apps/{application}/appattempts")["appAttempts"]["appAttempt"])

    def processes(self, java_class: str) -> list[psutil.Process]:
        """Returns the Java processes in containers that run a class, such as an executor or an ApplicationMaster."""
        children = psutil.Process(self._daemons["nodemanager"].pid).children(recursive=True)
        found = []
        for child in children:
            try:
                if child.name() == "java" and java_class in child.cmdline():
                    found.append(child)
            except psutil.NoSuchProcess:
                continue
        return found

    def files(self, directory: str) -> list[str]:
        """Returns the names of the files and directories in a directory of HDFS."""
        return [entry["pathSuffix"] for entry in self._list(directory)]

    def write_file(self, path: str, age_s: float) -> None:
        """Writes an empty file into HDFS, as if it had been written some time ago."""
        self._put(f"{path}?op=CREATE&overwrite=true&")
        self._put(f"{path}?op=SETTIMES&modificationtime={int((time.time() - age_s) * 1000)}&")

    def _put(self, path: str) -> None:
        url = f"http://{self._files_web}/webhdfs/v1{path}user.name={getpass.getuser()}"
        try:
            urllib.request.urlopen(urllib.request.Request(url, method="PUT"), timeout=30).close()
        except urllib.error.HTTPError as answer:
            # The NameNode names the DataNode that takes the content of a file.
            assert answer.code == HTTPStatus.TEMPORARY_REDIRECT, answer.read()
            request = urllib.request.Request(answer.headers["Location"], method="PUT")
            urllib.request.urlopen(request, timeout=30).close()

    def _list(self, directory: str) -> list[dict[str, Any]]:
        query = f"op=LISTSTATUS&user.name={getpass.getuser()}"
        with urllib.request.urlopen(f"http://{self._files_web}/webhdfs/v1{directory}?{query}", timeout=10) as answer:
            entries: list[dict[str, Any]] = json.load(answer)["FileStatuses"]["FileStatus"]
            return entries

    def log(self, name: str) -> str:
        return (self._directory / f"{name}.log").read_text(errors="replace")[-4000:]

    def container_logs(self) -> str:
        """Returns the output of all containers."""
        paths = sorted((self._directory / "containers").rglob("std*"))
        return "\n".join(f"== {path}\n{path.read_text(errors='replace')}" for path in paths)

    def stop(self) -> None:
        for daemon in reversed(self._daemons.values()):
            kill_with_children(daemon.pid)
            daemon.wait()

    def _running_nodes(self) -> list[dict[str, Any]]:
        try:
            nodes = (self._ask("nodes")["nodes"] or {}).get("node", [])
        except OSError:
            return []
        return [node for node in nodes if node["state"] == "RUNNING"]

    def _num_data_nodes(self) -> int:
        url = f"http://{self._files_web}/jmx?qry=Hadoop:service=NameNode,name=FSNamesystemState"
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                beans = json.load(answer)["beans"]
        except OSError:
            return 0
        return int(beans[0]["NumLiveDataNodes"]) if beans else 0

    def _ask(self, what: str) -> Any:
        with urllib.request.urlopen(f"http://{self._web}/ws/v1/cluster/{what}", timeout=10) as answer:
            return json.load(answer)

    def _launch(self, name: str, java_class: str, *arguments: str) -> subprocess.Popen[bytes]:
        import pyspark

        # The daemons share these jars with Spark, whose Hadoop has the same version.
        class_path = os.pathsep.join(
            (str(self.configuration), f"{self._jars}/*", f"{Path(pyspark.__file__).parent}/jars/*")
        )
        options = [*_OPTIONS, f"-Dyarn.log.dir={self._directory}", f"-Dhadoop.log.dir={self._directory}"]
        with (self._directory / f"{name}.log").open("ab") as log:
            return subprocess.Popen(
                ["java", *options, "-cp", class_path, java_class, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._directory,
                env={**os.environ, "HADOOP_CONF_DIR": str(self.configuration)},
            )

    def _wait(self, condition: Any, what: str) -> None:
        deadline = time.monotonic() + START_S
        while not condition():
            for name, daemon in self._daemons.items():
                assert daemon.poll() is None, f"the {name} has ended: {self.log(name)}"
            assert time.monotonic() < deadline, f"waited {START_S} s for {what}"
            time.sleep(0.1)

    def _write_configuration(self) -> None:
        self.configuration.mkdir(parents=True)
        manager = "yarn.resourcemanager"
        node = "yarn.nodemanager"
        disks = f"{node}.disk-health-checker"
        self._write("core", {"fs.defaultFS": self.file_system, "hadoop.tmp.dir": str(self._directory / "tmp")})
        self._write(
            "hdfs",
            {
                "dfs.replication": "1",
                "dfs.namenode.http-address": self._files_web,
                "dfs.datanode.address": "127.0.0.1:0",
                "dfs.datanode.http.address": "127.0.0.1:0",
                "dfs.datanode.ipc.address": "127.0.0.1:0",
            },
        )
        self._write(
            "yarn",
            {
                f"{manager}.address": f"127.0.0.1:{own_port()}",
                f"{manager}.scheduler.address": f"127.0.0.1:{own_port()}",
                f"{manager}.resource-tracker.address": f"127.0.0.1:{own_port()}",
                f"{manager}.admin.address": f"127.0.0.1:{own_port()}",
                f"{manager}.webapp.address": self._web,
                # The other schedulers need a file of queues.
                f"{manager}.scheduler.class": f"{_YARN}.resourcemanager.scheduler.fifo.FifoScheduler",
                f"{manager}.am.max-attempts": "2",
                # A client whose application is unknown to YARN must not wait for minutes.
                f"{manager}.connect.max-wait.ms": "20000",
                f"{node}.address": "127.0.0.1:0",
                f"{node}.localizer.address": f"127.0.0.1:{own_port()}",
                f"{node}.webapp.address": "127.0.0.1:0",
                f"{node}.log-dirs": str(self._directory / "containers"),
                f"{node}.resource.memory-mb": str(_NODE_MEMORY_MB),
                f"{node}.resource.cpu-vcores": str(_NODE_CORES),
                f"{node}.vmem-check-enabled": "false",
                f"{node}.pmem-check-enabled": "false",
                f"{disks}.max-disk-utilization-per-disk-percentage": "99.9",
                "yarn.scheduler.minimum-allocation-mb": "128",
            },
        )

    def _write(self, name: str, entries: dict[str, str]) -> None:
        lines = [
            f"<property><name>{escape(key)}</name><value>{escape(value)}</value></property>"
            for key, value in entries.items()
        ]
        text = "\n".join(("<configuration>", *lines, "</configuration>\n"))
        (self.configuration / f"{name}-site.xml").write_text(text)


def _accepts(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=1).close()
    except OSError:
        return False
    return True


@contextmanager
def hadoop_cluster(directory: Path) -> Iterator[HadoopCluster]:
    """Runs a Hadoop cluster. Skips the test if its jars cannot be fetched."""
    require_spark()
    cluster = HadoopCluster(directory, require_jars("hadoop_cluster"))
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
