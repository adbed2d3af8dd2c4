"""Starts the JVM of Spark's driver as a child that ends with this process.

The JVM reads its standard input, a pipe from this process. When the pipe closes, for whatever reason, the JVM and the
Python workers that it has started exit.
"""

from __future__ import annotations

import collections
import os
import re
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from flinkpy.logs.context import in_no_context

if TYPE_CHECKING:
    from py4j.java_gateway import JavaGateway

#: The number of output lines that are kept to explain an exit.
_KEPT_LINES = 20
_WAIT_S = 10.0
_LOOK_S = 0.05
#: The connections of a killed process close a moment before its exit can be observed.
_REAPED_S = 0.2
#: The last output is read a moment after the exit.
_READ_S = 2.0
#: Lines that Java and Spark print at every start.
_NOISE = ("WARNING: Using incubator", "Using Spark's default log4j", "Setting default log level", "To adjust logging")
#: The options that the JVM needs when it starts: its own options, files that `spark-submit` fetches or brings to YARN,
#: and its login. All others are passed to the context, because other users can read a command line.
_OF_JVM = re.compile(
    r"spark\.(master|driver\.(memory.*|extra.*|defaultJavaOptions)|jars.*|submit\..*|yarn\..*|kerberos\..*)$"
)
_FRAME = re.compile(r"\s+(at |\.\.\. \d+ more)")
#: Lines that Spark logs at every start, and when it is told to forget frames.
_LOGGED_NOISE = re.compile(
    r"\S+ WARN (Utils: (Your hostname|Set SPARK_LOCAL_IP)|NativeCodeLoader: Unable to load|"
    r"\w+: RDD \d+ was locally checkpointed, its lineage has been truncated)"
)
#: A report of YARN about the application, which Spark logs each second while it starts.
_YARN_REPORT = re.compile(r" INFO Client: Application report for \S+ \(state: (\w+)\)")
_INFO = re.compile(r"\S+ INFO ")
#: The variable by which PySpark switches the modules of a process to Spark Connect.
CONNECT_MODE = "SPARK_CONNECT_MODE_ENABLED"
#: PySpark connects to the JVM that two variables of the process name, so one thread at a time may connect.
_CONNECTING = threading.Lock()
_LENGTH = struct.Struct("!i")

_LOG4J = """\
status = error
rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
appender.file.type = File
appender.file.name = file
appender.file.fileName = {path}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{HH:mm:ss.SSS}} %p %c{{1}}: %m%n%ex
# It tells whether YARN has accepted the application, which may then wait for resources as long as it takes.
logger.yarn.name = org.apache.spark.deploy.yarn.Client
logger.yarn.level = info
"""


class DriverProcess:
    """The JVM of a driver. Thread: any, but `stop` waits for the process."""

    def __init__(self, process: subprocess.Popen[bytes], output: _Output, log: Path) -> None:
        self._process = process
        self._output = output
        self._log = log

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def ends_within(self, seconds: float) -> bool:
        """Waits for the end of the process. Returns False if it still runs."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def stop(self) -> None:
        """Ends the process, and kills it after a timeout. Idempotent."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(_WAIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(_WAIT_S)

    @property
    def ending(self) -> str:
        """A description of the end of the process; empty while it runs. May wait a moment."""
        if not self.ends_within(_REAPED_S):
            return ""
        code = self._process.returncode
        return f"its driver was killed by signal {-code}" if code < 0 else f"its driver ended with exit code {code}"

    @property
    def waits_for_resources(self) -> bool:
        """True if the cluster manager has accepted the application, but has not started it yet. Only YARN says so."""
        reports = [found[1] for line in self._logged if (found := _YARN_REPORT.search(line)) is not None]
        return bool(reports) and reports[-1] == "ACCEPTED"

    @property
    def _logged(self) -> list[str]:
        try:
            return self._log.read_text(errors="replace").splitlines()
        except OSError:
            return []

    @property
    def last_words(self) -> str:
        """The last lines of its log, or of its output if the log is empty."""
        lines = [line for line in self._logged if not _INFO.match(line)]
        if not self.is_alive:
            self._output.wait_end(_READ_S)
        # Stack traces show a place in Spark, not the problem.
        logged = [line for line in lines if not (_FRAME.match(line) or _LOGGED_NOISE.match(line))][-3:]
        return " | ".join(logged or self._output.last_lines)


def launch(conf: Mapping[str, str], directory: Path, timeout_s: float) -> tuple[DriverProcess, JavaGateway]:
    """Starts a driver and connects to it. Blocks for a second or two.

    Args:
        conf: Spark's configuration.
        directory: for its log and its temporary files.
        timeout_s: the maximum time to wait for its answer.

    Raises:
        RuntimeError: the driver ends or does not answer in time. The message has the end of its output.
    """
    from pyspark.find_spark_home import _find_spark_home

    log = directory / "spark.log"
    settings = directory / "log4j2.properties"
    settings.write_text(_LOG4J.format(path=log))
    connection = directory / "connection"
    # A killed Java leaves its temporary files behind, so it gets a directory that is removed.
    own_options = f"-Dlog4j2.configurationFile=file:{settings} -Djava.io.tmpdir={directory}"
    java_options = f"{own_options} {conf.get('spark.driver.extraJavaOptions', '')}".strip()
    told = {**conf, "spark.driver.extraJavaOptions": java_options}
    process = subprocess.Popen(
        submission(os.path.join(_find_spark_home(), "bin", "spark-submit"), told),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={
            **_address_of_web_pages(conf),
            **{name: value for name, value in os.environ.items() if name != CONNECT_MODE},
            "SPARK_CONNECT_MODE": "0",
            "_PYSPARK_DRIVER_CONN_INFO_PATH": str(connection),
        },
        # Ctrl-C must reach only this process, which then ends the driver.
        start_new_session=True,
    )
    driver = DriverProcess(process, _Output(process), log)
    try:
        return driver, _connect(driver, connection, timeout_s)
    except BaseException:
        process.kill()
        driver.stop()
        raise


def _address_of_web_pages(conf: Mapping[str, str]) -> dict[str, str]:
    """Returns the variable that binds the web pages of a driver on loopback to loopback too.

    The pages need no login, and Spark serves them on all addresses of the host whatever address the driver has.
    """
    address = conf.get("spark.driver.bindAddress", "")
    return {"SPARK_LOCAL_IP": address} if address == "127.0.0.1" else {}


def submission(spark_submit: str, conf: Mapping[str, str]) -> list[str]:
    """Returns the command that starts a driver in client mode for PySpark."""
    command = [spark_submit]
    for key, value in conf.items():
        if _OF_JVM.match(key):
            command += ["--conf", f"{key}={value}"]
    return [*command, "pyspark-shell"]


def _connect(driver: DriverProcess, connection: Path, timeout_s: float) -> JavaGateway:
    from pyspark.java_gateway import launch_gateway

    deadline = time.monotonic() + timeout_s
    while not connection.exists():
        if driver.ends_within(_LOOK_S):
            raise RuntimeError(f"its driver has ended: {driver.last_words}")
        if time.monotonic() > deadline:
            raise RuntimeError(f"its driver does not answer: {driver.last_words}")
    data = connection.read_bytes()
    (port,) = _LENGTH.unpack_from(data)
    secret = data[2 * _LENGTH.size :].decode()
    connection.unlink()
    # PySpark finds a running JVM by these variables. They are removed again, because child processes would use it too.
    told = {"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret}
    with _CONNECTING:
        os.environ.update(told)
        try:
            return launch_gateway()
        finally:
            for name in told:
                del os.environ[name]


class _Output:
    """Forwards the output of the JVM and of functions in its Python workers."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._lines: collections.deque[str] = collections.deque(maxlen=_KEPT_LINES)
        self._process = process
        self._thread = threading.Thread(target=in_no_context(self._read), name="spark-output", daemon=True)
        self._thread.start()

    def wait_end(self, seconds: float) -> None:
        """Waits until everything has been read. Workers that outlive their driver can keep the pipe open."""
        self._thread.join(seconds)

    @property
    def last_lines(self) -> list[str]:
        return list(self._lines)

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as stream:
            for data in stream:
                line = data.decode(errors="replace")
                if not line.startswith(_NOISE):
                    self._lines.append(line.strip())
                    sys.stderr.write(line)
