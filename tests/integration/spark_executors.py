"""Executors of a standalone Spark cluster that die at a chosen record, and the programs that they run."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
from spark_support import SPARK_DEADLINE_S, StandaloneCluster

from flinkpy.common import Encoder, Types
from flinkpy.datastream import StreamExecutionEnvironment
from flinkpy.datastream.connectors.file_system import FileSink

NUM_RECORDS = 20_000
NUM_KEYS = 100


class ExecutorKill:
    """Kills the executor that processes a record. Functions wait at the record until their executor is dead.

    Args:
        others: kill the other executors of the application instead. The function goes on.
    """

    def __init__(self, directory: Path, others: bool = False) -> None:
        self._others = others
        self._armed = directory / "armed"
        self._armed.touch()

    @property
    def has_fired(self) -> bool:
        return not self._armed.exists()

    def at(self, is_reached: Callable[[Any], bool]) -> Callable[[Any], Any]:
        """Returns an identity map function that kills its executor at the first record that fits."""
        armed, others = str(self._armed), self._others

        def kill_executor(value: Any) -> Any:
            if is_reached(value):
                try:
                    os.unlink(armed)
                except FileNotFoundError:
                    return value
                (executor,) = [parent for parent in psutil.Process().parents() if parent.name() == "java"][:1]
                if others:
                    for other in _executors_beside(executor):
                        other.kill()
                    return value
                executor.kill()
                # The worker ends with its executor.
                time.sleep(SPARK_DEADLINE_S)
            return value

        return kill_executor


def _executors_beside(executor: psutil.Process) -> list[psutil.Process]:
    """Returns the other executors of the application. All are on this host."""
    command = executor.cmdline()
    driver = command[command.index("--driver-url") + 1]
    return [
        process
        for process in psutil.process_iter()
        if process.pid != executor.pid and process.name() == "java" and driver in process.cmdline()
    ]


def never(value: Any) -> bool:
    return False


def lines_of(directory: Path) -> list[str]:
    """Returns the sorted lines of the visible files."""
    files = [path for path in directory.rglob("*") if path.is_file() and not path.name.startswith(".")]
    return sorted(line for path in files for line in path.read_text().splitlines())


def hidden_files(directory: Path) -> list[str]:
    return [path.name for path in directory.rglob(".*inprogress*")]


def file_sink(directory: Path) -> FileSink:
    return FileSink.for_row_format(str(directory), Encoder.simple_string_encoder()).build()


def python_program(
    env: StreamExecutionEnvironment,
    out: Path,
    kill: ExecutorKill,
    in_map: Callable[[Any], bool] = never,
    in_pairs: Callable[[Any], bool] = never,
    in_first: Callable[[Any], bool] = never,
    in_second: Callable[[Any], bool] = never,
) -> None:
    """Python maps whose results two keyed reductions and a file sink read: three jobs of Spark read one frame.

    Each function kills an executor at a record: `in_map` before the frame, `in_pairs` in a task that reads the frame
    and writes a shuffle, `in_first` and `in_second` in tasks that read a shuffle.
    """

    # Some seconds of waiting, beside which the start of another executor counts little.
    def slowly(value: int) -> int:
        if value % 100 == 0:
            time.sleep(0.04)
        return value

    numbers = env.from_sequence(1, NUM_RECORDS).map(slowly).map(kill.at(in_map))
    numbers.map(str, Types.STRING()).sink_to(file_sink(out / "all"))
    for name, num_keys, reached in (("first", NUM_KEYS, in_first), ("second", 7, in_second)):
        pairs = numbers.map(_with_key(num_keys)).map(kill.at(in_pairs))
        summed = pairs.key_by(lambda each: each[0]).reduce(_add).map(kill.at(reached))
        summed.map(lambda each: f"{each[0]} {each[1]}", Types.STRING()).sink_to(file_sink(out / name))


def _with_key(num_keys: int) -> Callable[[int], tuple[int, int]]:
    return lambda value: (value % num_keys, value)


def _add(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    return one[0], one[1] + other[1]


def check_python_program(out: Path) -> None:
    numbers = range(1, NUM_RECORDS + 1)
    assert lines_of(out / "all") == sorted(map(str, numbers))
    for name, num_keys in (("first", NUM_KEYS), ("second", 7)):
        sums = {key: sum(number for number in numbers if number % num_keys == key) for key in range(num_keys)}
        assert lines_of(out / name) == sorted(f"{key} {total}" for key, total in sums.items())
    assert hidden_files(out) == [], "leftovers of attempts that do not count"


def executors_of(standalone: StandaloneCluster) -> list[psutil.Process]:
    """Returns the running executors."""
    children = [child for worker in standalone.workers for child in psutil.Process(worker.popen.pid).children()]
    return [child for child in children if child.name() == "java"]
