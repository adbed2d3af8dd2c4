"""Exceptions of Spark become errors of flinkpy."""

from __future__ import annotations

import sys

import pytest

from flinkpy.common.errors import FunctionError, SparkError, SparkUnavailableError, TableRuntimeError
from flinkpy.spark.errors import (
    TaskAttempt,
    as_flink_error,
    cause_of,
    failed_attempt_in,
    meaning_of,
    short_trace,
    worker_failure,
)

HERE = f"{sys.version_info.major}.{sys.version_info.minor}"


def told(text: str) -> Exception:
    return as_flink_error(RuntimeError(text), "Spark: Map (1/1)", "local[2]", "0 of 2 tasks")


def test_the_error_of_a_function_comes_before_sparks_task() -> None:
    try:
        raise KeyError("missing")
    except KeyError as raised:
        failure = str(worker_failure(raised, "Map (1/2)"))
    error = told(
        f"org.apache.spark.SparkException: Job aborted due to stage failure: Task 1 in stage 3.0 failed 4 times, most "
        f"recent failure: Lost task 1.3 in stage 3.0: {failure}\n\tat org.apache.spark.Something"
    )
    assert isinstance(error, FunctionError)
    assert error.message == "Map (1/2): KeyError: 'missing'"
    assert 'raise KeyError("missing")' in error.remote_traceback
    assert error.remote_traceback.endswith("\n\nSpark: Task 1 in stage 3.0 failed 4 times; 0 of 2 tasks\n")


def test_an_error_of_spark_is_reported_without_stack_traces() -> None:
    error = told("[DIVIDE_BY_ZERO] Division by zero.\n\tat org.apache.spark.Row(Row.scala:1)\n\tat java.lang.Thread")
    assert isinstance(error, SparkError)
    assert error.message == "Spark: Map (1/1): Spark failed: RuntimeError: [DIVIDE_BY_ZERO] Division by zero."


class Py4JJavaError(Exception):
    """A fake of py4j's error."""


def told_by_py4j(text: str) -> SparkError:
    text = f"An error occurred while calling o4756.getResult.\n: org.apache.spark.SparkException: {text}"
    error = as_flink_error(Py4JJavaError(text), "Map (1/1)", "spark://host:7077")
    assert isinstance(error, SparkError)
    assert error.remote_traceback.endswith(text[-20:]), "Spark's own text is kept"
    return error


def test_the_message_tells_the_cause_inside_sparks_wrappers() -> None:
    error = told_by_py4j(
        "Exception thrown in awaitResult: \n\tat org.apache.spark.util.SparkThreadUtils$.awaitResult(S.scala:53)\n"
        "Caused by: java.util.concurrent.ExecutionException: Boxed Exception\n\tat java.base/java.lang.Thread.run\n"
        "Caused by: org.apache.spark.SparkRuntimeException: [BAD_THING] It is bad.\n\tat org.apache.Some(S.java:1)"
    )
    assert error.message == "Map (1/1): Spark failed: SparkRuntimeException: [BAD_THING] It is bad."


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        (
            "ExecutorLostFailure (executor 1 exited) Reason: Remote RPC client disassociated.\nDriver stacktrace:",
            "executor lost: ExecutorLostFailure (executor 1 exited) Reason: Remote RPC client disassociated.",
        ),
        (
            "ExecutorLostFailure (executor 1 exited) Reason: exited with code 137",
            "spark.executor.memoryOverhead to more:",
        ),
        ("java.lang.OutOfMemoryError: Java heap space\n\tat x", "ran out of memory; set execution.batch.spark.conf."),
        (
            "ExecutorLostFailure (executor 1 exited) Reason: Command exited with code 52",
            "an executor ran out of memory; set execution.batch.spark.conf.spark.executor.memory to more",
        ),
        ("java.io.IOException: No space left on device\n\tat x", "no space left on a disk of the executors; free some"),
        (
            "FetchFailed(null, shuffleId=4): java.io.IOException: Failed to connect to h: Connection refused\n\tat x",
            "Map (1/1): executor lost: FetchFailed",
        ),
        (
            "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed). \nCaused by: x.EOFException",
            "a Python worker was killed or has crashed, usually because it used too much memory; set ",
        ),
        (
            "org.apache.hadoop.security.AccessControlException: Permission denied: user=ann, inode=/data\n\tat x",
            "permission denied: AccessControlException: Permission denied: user=ann, inode=/data (Task 2",
        ),
    ],
)
def test_the_message_says_why_an_executor_failed_and_which_option_helps(reason: str, expected: str) -> None:
    message = told_by_py4j(
        "Job aborted due to stage failure: Task 2 in stage 5.0 failed 4 times, most recent failure: Lost task 2.3 in "
        f"stage 5.0 (TID 15) (10.0.0.2 executor 1): {reason}"
    ).message
    assert expected in message
    assert message.endswith(" (Task 2 in stage 5.0 failed 4 times; on 10.0.0.2, executor 1)")
    assert "Py4J" not in message and "Job aborted" not in message


def test_executors_that_are_lost_again_and_again_are_the_cause_of_a_failed_stage() -> None:
    error = told_by_py4j(
        "Job aborted due to stage failure: ShuffleMapStage 8 (collect at x.py:1) has failed the maximum allowable "
        "number of times: 4. Most recent failure reason: org.apache.spark.shuffle.MetadataFetchFailedException: "
        "Missing an output location for shuffle 4 partition 0\n\tat org.apache.spark.MapOutputTracker$.validateStatus"
    )
    assert error.message == (
        "Map (1/1): executor lost: MetadataFetchFailedException: Missing an output location for shuffle 4 partition 0"
    )


def test_the_end_of_the_lost_executors_tells_why_shuffle_files_are_missing() -> None:
    text = (
        "Job aborted due to stage failure: ShuffleMapStage 8 (collect at x.py:1) has failed the maximum allowable "
        "number of times: 4. Most recent failure reason: org.apache.spark.shuffle.MetadataFetchFailedException: "
        "Missing an output location for shuffle 4 partition 0"
    )
    lost = "executor 3 on 10.0.0.2:4041: Command exited with code {}"
    missing = "MetadataFetchFailedException: Missing an output location for shuffle 4 partition 0"
    assert meaning_of(text, lost.format(52)) == (
        "an executor ran out of memory; set execution.batch.spark.conf.spark.executor.memory to more, or use more "
        f"partitions: {missing}; lost {lost.format(52)}"
    )
    assert meaning_of(text, lost.format(1)) == f"executor lost: {missing}; lost {lost.format(1)}"


def test_executors_with_another_python_are_reported_with_both_versions_and_the_option_to_set() -> None:
    error = told(
        "PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.10 than that in "
        f"driver: {HERE}, PySpark cannot run with different minor versions.\n at x"
    )
    assert isinstance(error, SparkUnavailableError)
    assert error.message == (
        f"Spark: Map (1/1): the executors of Spark at local[2] run Python 3.10, but this program runs Python {HERE}: "
        f"set execution.batch.spark.conf.spark.pyspark.python to a Python {HERE} there"
    )


def test_a_python_that_is_too_old_for_sparks_modules_is_reported_by_its_version() -> None:
    error = told(
        "Py4JJavaError: Lost task 0.0\nError from python worker:\n  Traceback (most recent call last):\n"
        '    File "/usr/lib/python3.8/runpy.py", line 185, in _run_module_as_main\n'
        "  TypeError: 'type' object is not subscriptable\nPYTHONPATH was:\n  /opt/spark/python/lib/pyspark.zip\n"
    )
    assert isinstance(error, SparkUnavailableError)
    assert f"run Python 3.8, but this program runs Python {HERE}: set " in error.message


def test_a_python_that_does_not_start_is_reported_with_its_last_line() -> None:
    error = told(
        "Py4JJavaError: Lost task 0.0\nError from python worker:\n  Fatal Python error: no encodings\n"
        "PYTHONPATH was:\n  /opt/spark/python/lib/pyspark.zip\n"
    )
    assert isinstance(error, SparkUnavailableError)
    assert error.message.endswith("could not start Python: Fatal Python error: no encodings")


def test_executors_without_python_or_a_module_are_reported() -> None:
    error = told('java.io.IOException: Cannot run program "python9": error=2, No such file or directory')
    assert isinstance(error, SparkUnavailableError) and "have no Python 'python9': set execution" in error.message
    error = told("PythonException: ModuleNotFoundError: No module named 'pyarrow'")
    assert isinstance(error, SparkUnavailableError) and "have a Python without the module 'pyarrow'" in error.message


def test_the_python_of_a_connect_server_is_set_at_the_server() -> None:
    text = f"[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.12 than that in driver: {HERE}, x"
    error = as_flink_error(RuntimeError(text), "Spark: Map (1/1)", "sc://host")
    assert error.message.endswith(
        f"set PYSPARK_PYTHON in the environment of the Spark Connect server to a Python {HERE} there"
    )


def test_the_loss_of_a_driver_or_server_can_be_retried() -> None:
    for text in (
        "Py4JNetworkError: Answer from Java side is empty",
        "StatusCode.UNAVAILABLE",
        "Connection refused",
        "SparkConnectException: [NO_ACTIVE_SESSION] No active Spark session found.",
    ):
        error = told(text)
        assert isinstance(error, SparkError) and "Spark at local[2] is gone" in error.message


def test_the_end_of_the_driver_is_the_cause_of_later_errors() -> None:
    error = as_flink_error(EOFError(), "Spark: Map (1/1)", "local[2]", ending="its driver was killed by signal 9")
    assert error.message == "Spark: Map (1/1): Spark at local[2] is gone: its driver was killed by signal 9"


def test_a_long_cause_is_cut() -> None:
    assert len(cause_of("x" * 10_000)) < 1_000


def test_the_failed_attempt_is_told_where_the_server_does_not_tell_it() -> None:
    """An exception of Spark Connect has only the text of the worker."""
    failure = str(worker_failure(ValueError("x"), "Map (1/2)", TaskAttempt(stage=5, partition=1, number=3)))
    error = told(f"PythonException: An exception was thrown from the Python worker: {failure} SQLSTATE: 38000")
    assert isinstance(error, FunctionError)
    assert error.remote_traceback.endswith("\n\nSpark: Task 1 in stage 5 failed 4 times; 0 of 2 tasks\n")
    assert failed_attempt_in(failure) == TaskAttempt(5, 1, 3)
    assert failed_attempt_in(str(worker_failure(ValueError("x"), "Map (1/2)"))) is None


def test_a_stack_trace_of_java_keeps_the_first_frames_of_each_exception() -> None:
    frames = [f"\tat org.apache.spark.Some$Class.call(Some.scala:{number})" for number in range(30)]
    text = "\n".join(
        ["Py4JJavaError: wrapped", *frames, "Caused by: java.io.EOFException", *frames, "\t... 27 more", ""]
    )
    first = frames[:3]
    assert short_trace(text).splitlines() == [
        "Py4JJavaError: wrapped",
        *first,
        "\t... 27 more frames",
        "Caused by: java.io.EOFException",
        *first,
        "\t... 28 more frames",
    ]
    assert short_trace("one line") == "one line"


def test_an_error_that_a_query_raises_is_one_of_the_table_program() -> None:
    told = "[USER_RAISED_EXCEPTION] TableRuntimeError: Division by zero SQLSTATE: P0001"
    error = as_flink_error(Exception(f"org.apache.spark.SparkRuntimeException: {told}"), "task", "local[2]")
    assert isinstance(error, TableRuntimeError)
    assert error.message == "Division by zero"
