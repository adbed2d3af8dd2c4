"""Exceptions of Spark become errors of flinkpy."""

from __future__ import annotations

import sys

from flinkpy.common.errors import FunctionError, SparkError, SparkUnavailableError
from flinkpy.spark.errors import TaskAttempt, as_flink_error, cause_of, failed_attempt_in, worker_failure

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
