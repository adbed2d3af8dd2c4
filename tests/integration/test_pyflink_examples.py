"""The examples of the apache-flink wheel run with only their imports changed, and print the same.

The examples are not part of this project: they are fetched from PyPI. The records that they print on PyFlink are
written down here, and are compared without their order. The streaming examples run one after the other in one process,
and so on one embedded cluster, because its start takes longer than an example.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from pyflink_examples import fetch_examples
from requirements import require

_IMPORT = re.compile(r"^(\s*(?:from|import)\s+)pyflink\b", re.MULTILINE)
#: The prefix that a print sink of several subtasks adds. The key hash decides which subtask has a key.
_SUBTASK = re.compile(r"^\d+> ")
#: Messages of the examples about their arguments.
_ABOUT_ARGUMENTS = ("Executing ", "Use --input", "Printing result")

#: Example -> its records, sorted.
PRINTED = {
    "basic_operations.py": [
        "('China', 135)",
        "('China', 167)",
        "('Germany', 123)",
        "('USA', 124)",
        '(1, \'{"name": "Flink", "tel": 124, "addr": {"country": "Germany", "city": "Berlin"}}\')',
        '(1, \'{"name": "Flink", "tel": 124, "addr": {"country": "Germany", "city": "Berlin"}}\')',
        '(2, \'{"name": "hello", "tel": 136, "addr": {"country": "China", "city": "Shanghai"}}\')',
        '(3, \'{"name": "world", "tel": 125, "addr": {"country": "USA", "city": "NewYork"}}\')',
        '(4, \'{"name": "PyFlink", "tel": 33, "addr": {"country": "China", "city": "Hangzhou"}}\')',
    ],
    "event_time_timer.py": [
        "('Alice', 163.29999923706055)",
        "('Alice', 163.29999923706055)",
        "('Alice', 163.29999923706055)",
        "('Alice', 163.29999923706055)",
        "('Bob', 102.49999952316284)",
        "('Bob', 102.49999952316284)",
        "('Bob', 102.49999952316284)",
        "('Bob', 102.49999952316284)",
    ],
    "process_json_data.py": [
        "(2, {'name': 'hello', 'tel': 136, 'addr': {'country': 'China', 'city': 'Shanghai'}})",
        "(4, {'name': 'PyFlink', 'tel': 33, 'addr': {'country': 'China', 'city': 'Hangzhou'}})",
    ],
    "state_access.py": [
        "('Alice', 110.0999984741211)",
        "('Alice', 130.0999984741211)",
        "('Alice', 143.19999885559082)",
        "('Alice', 163.29999923706055)",
        "('Bob', 102.49999952316284)",
        "('Bob', 30.200000762939453)",
        "('Bob', 83.29999923706055)",
        "('Bob', 86.39999914169312)",
    ],
    "windowing/session_with_dynamic_gap_window.py": [
        "(hi,1,30,7)",
    ],
    "windowing/session_with_gap_window.py": [
        "(hi,1,14,6)",
        "(hi,15,20,1)",
    ],
    "windowing/sliding_time_window.py": [
        "(hi,-2,3,2)",
        "(hi,0,5,4)",
        "(hi,12,17,1)",
        "(hi,14,19,1)",
        "(hi,2,7,4)",
        "(hi,4,9,3)",
        "(hi,6,11,2)",
        "(hi,8,13,2)",
    ],
    "windowing/tumbling_count_window.py": [
        "(hello,12)",
        "(hello,6)",
        "(hi,4)",
    ],
    "windowing/tumbling_time_window.py": [
        "(hi,0,5,4)",
        "(hi,15,20,1)",
        "(hi,5,10,3)",
    ],
}

#: Example of the Table API -> its records, sorted.
PRINTED_BY_TABLES = {
    "multi_sink.py": [
        "+I[1, Hello]",
        "+I[2, World]",
        "+I[3, Flink]",
        "+I[3, Flink]",
        "+I[4, PyFlink]",
    ],
    "process_json_data.py": [
        "+I[1, Germany]",
        "+I[2, China]",
        "+I[3, USA]",
        "+I[4, China]",
    ],
    "process_json_data_with_udf.py": [
        '+I[1, {"name": "Flink", "tel": 124, "addr": {"country": "Germany", "city": "Berlin"}}]',
        '+I[2, {"name": "hello", "tel": 136, "addr": {"country": "China", "city": "Shanghai"}}]',
        '+I[3, {"name": "world", "tel": 125, "addr": {"country": "USA", "city": "NewYork"}}]',
        '+I[4, {"name": "PyFlink", "tel": 33, "addr": {"country": "China", "city": "Hangzhou"}}]',
    ],
    "pandas/pandas_udaf.py": [
        "+I[Alice, 13.1, 1970-01-01T00:00:05Z, 1970-01-01T00:00:10Z]",
        "+I[Alice, 20.1, 1970-01-01T00:00:10Z, 1970-01-01T00:00:15Z]",
        "+I[Alice, 65.05, 1970-01-01T00:00:00Z, 1970-01-01T00:00:05Z]",
        "+I[Bob, 16.1, 1970-01-01T00:00:05Z, 1970-01-01T00:00:10Z]",
        "+I[Bob, 28.800001, 1970-01-01T00:00:00Z, 1970-01-01T00:00:05Z]",
    ],
    "windowing/over_window.py": [
        "+I[Alice, 110.1]",
        "+I[Alice, 110.1]",
        "+I[Alice, 110.1]",
        "+I[Alice, 20.1]",
        "+I[Bob, 30.2]",
        "+I[Bob, 53.1]",
        "+I[Bob, 53.1]",
        "+I[Bob, 53.1]",
    ],
    "windowing/session_window.py": [
        "+I[Alice, 130.1, 1970-01-01T00:00:01Z, 1970-01-01T00:00:08Z]",
        "+I[Alice, 20.1, 1970-01-01T00:00:10Z, 1970-01-01T00:00:15Z]",
        "+I[Bob, 99.4, 1970-01-01T00:00:02Z, 1970-01-01T00:00:13Z]",
    ],
    "windowing/tumble_window.py": [
        "+I[Alice, 13.1, 1970-01-01T00:00:05Z, 1970-01-01T00:00:10Z]",
        "+I[Alice, 130.1, 1970-01-01T00:00:00Z, 1970-01-01T00:00:05Z]",
        "+I[Alice, 20.1, 1970-01-01T00:00:10Z, 1970-01-01T00:00:15Z]",
        "+I[Bob, 16.1, 1970-01-01T00:00:05Z, 1970-01-01T00:00:10Z]",
        "+I[Bob, 86.4, 1970-01-01T00:00:00Z, 1970-01-01T00:00:05Z]",
    ],
}

#: word_count.py prints a record for each of these many words; the SHA-256 of the sorted records, one a line.
WORDS = 183
WORDS_SHA256 = "288856b8b275a59a707b3427c93342118eaf384ce5859f9426aed791e11fa6d6"


@pytest.fixture(scope="module")
def examples() -> Path:
    folder, reason = fetch_examples()
    require("PyFlink examples", reason is None, f"NOT TESTED: {reason}")
    return folder / "datastream"


#: Runs the programs that are its arguments, each as a main program, and prints a line before each.
_RUN_ALL = """
import runpy, sys, traceback
programs = sys.argv[1:]
for program in programs:
    print("program", program, flush=True)
    sys.argv[:] = [program]
    try:
        runpy.run_path(program, run_name="__main__")
    except Exception:
        traceback.print_exc(file=sys.stdout)
    sys.stdout.flush()
"""


def copied(examples: Path, name: str, directory: Path) -> str:
    """Writes the example with the import of flinkpy, and returns the path of the copy."""
    program = directory / Path(name).name
    program.write_text(_IMPORT.sub(r"\1flinkpy", (examples / name).read_text()))
    return str(program)


def run(directory: Path, *arguments: str) -> list[str]:
    """Runs Python without any configuration of this host and returns the lines of its output."""
    environment = {**os.environ, "TMPDIR": str(directory)}
    for variable in ("FLINKPY_CONF_DIR", "FLINK_CONF_DIR", "FLINKPY_DYNAMIC_PROPERTIES"):
        environment.pop(variable, None)
    done = subprocess.run(
        [sys.executable, *arguments], check=False, capture_output=True, text=True, timeout=250, env=environment
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def records(lines: list[str]) -> list[str]:
    return sorted(_SUBTASK.sub("", line) for line in lines if not line.startswith(_ABOUT_ARGUMENTS))


@pytest.fixture(scope="module")
def printed(examples: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """The sorted output of each streaming example."""
    return outputs(examples, list(PRINTED), tmp_path_factory.mktemp("examples"))


@pytest.fixture(scope="module")
def printed_by_tables(examples: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """The sorted output of each example of the Table API."""
    return outputs(examples.parent / "table", list(PRINTED_BY_TABLES), tmp_path_factory.mktemp("tables"))


def outputs(examples: Path, examples_to_run: list[str], directory: Path) -> dict[str, list[str]]:
    """Runs examples in one process. Returns the sorted records of each."""
    names = {copied(examples, name, directory): name for name in examples_to_run}
    lines: dict[str, list[str]] = {}
    for line in run(directory, "-c", _RUN_ALL, *names):
        is_start, _, program = line.partition(" ")
        if is_start == "program":
            current = lines.setdefault(names[program], [])
        else:
            current.append(line)
    return {name: records(found) for name, found in lines.items()}


@pytest.mark.parametrize("name", PRINTED)
def test_example_prints_what_it_prints_on_pyflink(name: str, printed: dict[str, list[str]]) -> None:
    if name == "event_time_timer.py":
        # The state expires after one second of processing time, so a later timer finds none.
        expected = PRINTED[name]
        assert len(printed[name]) == len(expected)
        assert all(line in expected or line.endswith(", None)") for line in printed[name])
    else:
        assert printed[name] == PRINTED[name]


@pytest.mark.parametrize("name", PRINTED_BY_TABLES)
def test_example_of_tables_prints_what_it_prints_on_pyflink(name: str, printed_by_tables: dict[str, list[str]]) -> None:
    assert printed_by_tables[name] == PRINTED_BY_TABLES[name]


def test_word_count_in_batch_mode_prints_what_it_prints_on_pyflink(examples: Path, tmp_path: Path) -> None:
    found = records(run(tmp_path, copied(examples, "word_count.py", tmp_path)))

    assert len(found) == WORDS
    assert hashlib.sha256("\n".join(found).encode()).hexdigest() == WORDS_SHA256
