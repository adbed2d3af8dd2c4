"""The process of Spark's driver reports its ending and its last log lines."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

from flinkpy.spark.java_gateway import DriverProcess, _Output


def started(log: Path, *command: str) -> tuple[subprocess.Popen[bytes], DriverProcess]:
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    return process, DriverProcess(process, _Output(process), log)


def test_the_ending_of_a_driver_tells_its_exit_code_or_signal(tmp_path: Path) -> None:
    process, driver = started(tmp_path / "log", "cat")
    assert driver.ending == ""
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert driver.ending == "its driver was killed by signal 9"
    driver.stop()
    process, driver = started(tmp_path / "log", "false")
    process.wait()
    assert driver.ending == "its driver ended with exit code 1"
    driver.stop()


def test_last_words_contain_no_stack_traces_and_no_start_messages(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(
        "10:00:00.000 WARN Utils: Set SPARK_LOCAL_IP if you need to bind to another address\n"
        "10:00:00.000 WARN NativeCodeLoader: Unable to load native-hadoop library for your platform\n"
        "10:00:01.000 ERROR SparkContext: Error initializing SparkContext.\n"
        "org.apache.spark.SparkException: Could not parse Master URL: 'local[x]'\n"
        "\tat org.apache.spark.SparkContext$.create(SparkContext.scala:3202)\n"
        "\t... 5 more\n"
        "10:00:02.000 WARN MapPartitionsRDD: RDD 15 was locally checkpointed, its lineage has been truncated and\n"
    )
    _, driver = started(log, "cat")
    assert driver.last_words == (
        "10:00:01.000 ERROR SparkContext: Error initializing SparkContext. | "
        "org.apache.spark.SparkException: Could not parse Master URL: 'local[x]'"
    )
    driver.stop()


def test_a_driver_waits_for_resources_while_yarn_has_only_accepted_it(tmp_path: Path) -> None:
    log = tmp_path / "log"
    report = "10:00:0{} INFO Client: Application report for application_1_0002 (state: {})\n"
    _, driver = started(log, "cat")
    assert not driver.waits_for_resources, "it has no log yet"
    log.write_text("10:00:00.000 WARN Client: Neither spark.yarn.jars nor spark.yarn.archive is set\n")
    assert not driver.waits_for_resources
    log.write_text(log.read_text() + report.format(1, "ACCEPTED") + report.format(2, "ACCEPTED"))
    assert driver.waits_for_resources
    assert driver.last_words == "10:00:00.000 WARN Client: Neither spark.yarn.jars nor spark.yarn.archive is set"
    log.write_text(log.read_text() + report.format(3, "RUNNING"))
    assert not driver.waits_for_resources
    driver.stop()
