"""Makes an archive of the Java classes that Spark loads. A driver with this archive starts with about half the work.

`JAVA_OPTIONS` name the archive. If it is missing or does not fit, Java starts without it, so no test depends on it.
`make_spark_archive` makes it once for this checkout, from the classes that a short program on Spark has loaded. That
takes about as long as two drivers need to start.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
#: The time limit for making the archive; generous for a loaded machine.
_TRAINING_S = 120.0
#: Uses only the fast compiler, because these processes run for seconds.
_SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

_TRAINING = """
import sys
import pandas
from pyspark.sql import SparkSession

settings = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.extraJavaOptions": sys.argv[1],
}
builder = SparkSession.builder.master("local[2]")
for key, value in settings.items():
    builder = builder.config(key, value)
session = builder.getOrCreate()
frame = session.createDataFrame(pandas.DataFrame({"a": range(100), "b": [str(number % 7) for number in range(100)]}))
frame.groupBy("b").sum("a").join(frame.groupBy("b").count(), "b").orderBy("b").collect()
gateway = session.sparkContext._gateway
session.stop()
gateway.shutdown()
# Java ends in order when its standard input ends, and writes the archive then.
gateway.proc.stdin.close()
gateway.proc.wait()
"""


def _spark_archive() -> Path | None:
    """Returns the path of the archive for this Java and this Spark, or None if there can be none."""
    java, spark = shutil.which("java"), importlib.util.find_spec("pyspark")
    if java is None or spark is None or " " in str(ROOT):
        return None
    # A Spark worker imports this module from a zip archive, where no file path exists.
    if spark.origin is None or not os.path.exists(spark.origin):
        return None
    executable = os.path.realpath(java)
    identity = f"{executable} {os.stat(executable).st_mtime_ns} {spark.origin} {os.stat(spark.origin).st_mtime_ns}"
    return ROOT / ".data" / "java-archives" / f"spark-{hashlib.sha256(identity.encode()).hexdigest()[:16]}.jsa"


_ARCHIVE = _spark_archive()
#: The options of every Java process that tests start for Spark. They turn off the log in which Java says why it does
#: not use an archive.
JAVA_OPTIONS = _SHORT_LIVED + ("" if _ARCHIVE is None else f" -XX:SharedArchiveFile={_ARCHIVE} -Xlog:disable")


@cache
def make_spark_archive() -> None:
    """Makes the archive, unless it exists or another process is making it. Call this before Spark starts."""
    if _ARCHIVE is None or _ARCHIVE.exists():
        return
    _ARCHIVE.parent.mkdir(parents=True, exist_ok=True)
    with open(_ARCHIVE.with_suffix(".lock"), "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        if _ARCHIVE.exists():
            return
        unfinished = _ARCHIVE.with_suffix(".unfinished")
        unfinished.unlink(missing_ok=True)
        options = f"{_SHORT_LIVED} -XX:ArchiveClassesAtExit={unfinished} -Xlog:disable"
        environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
        with open(_ARCHIVE.with_suffix(".log"), "wb") as log:
            training = subprocess.Popen(
                [sys.executable, "-c", _TRAINING, options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                start_new_session=True,
            )
            try:
                status = training.wait(_TRAINING_S)
            except subprocess.TimeoutExpired:
                os.killpg(training.pid, 9)
                status = training.wait()
        if status == 0 and unfinished.exists():
            unfinished.rename(_ARCHIVE)
