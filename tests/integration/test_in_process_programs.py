"""Programs with `execution.target: local-threads`: services and tasks are threads of the program."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from flinkpy.common import Configuration, Types
from flinkpy.common.errors import JobExecutionError, UnsupportedOperationError
from flinkpy.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from flinkpy.datastream.state import ValueStateDescriptor

#: A thread that has been told to end may need a moment.
JOIN_TIMEOUT_S = 30.0
#: Functions of the same process see these objects of their module.
_FAILED, _GATE = threading.Event(), threading.Event()


def environment(parallelism: int = 2, **properties: str) -> StreamExecutionEnvironment:
    configuration = Configuration.from_dict({"execution.target": "local-threads", **properties})
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(parallelism)
    return env


@pytest.fixture(autouse=True)
def _nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Checks after each test that the job has left neither threads nor files, and that no process was started.

    Clusters of other tests may live beside it, and their ResourceManagers start TaskExecutors when they like: only
    processes that this one starts itself count.
    """
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    own = psutil.Process()
    threads, children = set(threading.enumerate()), set(own.children())
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    level = logging.getLogger("flinkpy.dispatcher").level
    path, directory = list(sys.path), os.getcwd()
    yield
    for thread in set(threading.enumerate()) - threads:
        thread.join(JOIN_TIMEOUT_S)
        assert not thread.is_alive(), f"{thread.name} still runs"
    assert set(own.children()) <= children
    assert {number: signal.getsignal(number) for number in handlers} == handlers
    assert logging.getLogger("flinkpy.dispatcher").level == level
    assert (os.getcwd(), sys.path) == (directory, path)
    assert [entry.name for entry in tmp_path.iterdir() if entry.name.startswith("flinkpy-")] == []


def test_functions_run_in_threads_of_the_program_beside_its_objects() -> None:
    env = environment()
    stream = env.from_collection(list(range(10)), Types.LONG()).key_by(lambda x: x % 3, Types.LONG())
    seen = stream.map(lambda x: (x, os.getpid(), threading.current_thread().name))
    with seen.execute_and_collect() as results:
        rows = list(results)
    assert sorted(value for value, _, _ in rows) == list(range(10))
    assert {pid for _, pid, _ in rows} == {os.getpid()}
    assert threading.main_thread().name not in {name for _, _, name in rows}


def test_a_debugger_sees_the_functions_of_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    stops: list[tuple[str, Any]] = []

    def stop() -> None:
        frame = sys._getframe(1)
        stops.append((frame.f_code.co_filename, frame.f_locals["value"]))

    monkeypatch.setattr("sys.breakpointhook", stop)

    def function(value: int) -> int:
        breakpoint()
        return value

    env = environment(1)
    env.from_collection([1, 2], Types.LONG()).map(function).filter(lambda x: False).print()
    env.execute("stops")
    assert sorted(value for _, value in stops) == [1, 2]


def test_pdb_reads_its_commands_from_the_terminal_of_the_program(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent("""
            from flinkpy.common import Configuration, Types
            from flinkpy.datastream import StreamExecutionEnvironment
            configuration = Configuration.from_dict({"execution.target": "local-threads"})
            env = StreamExecutionEnvironment.get_execution_environment(configuration)
            # One prompt at a time: two threads would share the lines of the input.
            env.set_parallelism(1)
            def function(value):
                breakpoint()
                return value * 2
            env.from_collection([20, 21], Types.LONG()).map(function).print()
            env.execute()
            print("ended")
        """)
    )
    command = "p value + 1000\ncontinue\n"
    done = subprocess.run(
        [sys.executable, str(program)],
        input=command * 2,
        capture_output=True,
        text=True,
        timeout=JOIN_TIMEOUT_S * 4,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert {"1020", "1021"} <= {line.rpartition(") ")[2] for line in done.stdout.splitlines()}
    assert done.stdout.splitlines()[-1].endswith("ended")


def test_the_error_of_a_function_has_its_traceback() -> None:
    def fails(value: int) -> float:
        return 1 / (value - 3)

    env = environment()
    env.from_collection(list(range(6)), Types.LONG()).map(fails).print()
    with pytest.raises(JobExecutionError, match="return 1 / \\(value - 3\\)"):
        env.execute("fails")


class FailsOnce(KeyedProcessFunction):
    """Counts records by key, and fails once after a checkpoint."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        if value == 3_000 and not _FAILED.is_set():
            _FAILED.set()
            raise ValueError("once")
        # The two sources are not equally fast, so that only the last count of a key tells of all its records.
        if count >= 990:
            yield value % 10, count


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_a_job_restarts_from_its_checkpoint_exactly_once(backend: str, tmp_path: Path) -> None:
    _FAILED.clear()
    env = environment(
        **{
            "execution.checkpointing.interval": "20 ms",
            "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
            "state.backend.type": backend,
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.delay": "10 ms",
        }
    )
    numbers = env.from_sequence(0, 9_999).key_by(lambda x: x % 10, Types.LONG())
    with numbers.process(FailsOnce()).execute_and_collect() as results:
        counts = dict(results)
    assert _FAILED.is_set()
    assert counts == dict.fromkeys(range(10), 1_000)


def test_jobs_at_the_same_time_share_the_cluster() -> None:
    _GATE.clear()
    first, second = environment(), environment(3)
    first.from_collection([1], Types.LONG()).map(waits).print()
    waiting = first.execute_async("first")
    second.from_collection([1], Types.LONG()).map(opens).print()
    second.execute("second")
    waiting.get_job_execution_result().result()


def waits(value: int) -> int:
    assert _GATE.wait(JOIN_TIMEOUT_S)
    return value


def opens(value: int) -> int:
    _GATE.set()
    return value


def test_requirements_are_refused_because_functions_share_the_packages_of_the_program(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("wheel\n")
    env = environment()
    env.set_python_requirements(str(tmp_path / "requirements.txt"))
    env.from_collection([1], Types.LONG()).print()
    with pytest.raises(UnsupportedOperationError, match="local-threads"):
        env.execute()
