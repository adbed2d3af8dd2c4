"""AsyncCalcOperator: asynchronous scalar functions keep the order of rows, and are called again after failures."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from async_functions_for_tests import MailHarness
from changelogs import Change, to_batch, to_changes
from memory_checkpoints import OPTIONS, MemoryStreams
from streaming_fakes import FakeTaskStateManager
from table_subtasks import row_info

from flinkpy._proto import checkpoint_pb2
from flinkpy.common.errors import FunctionError, TypeMismatchError
from flinkpy.graph.table_specs import AsyncCalcSpec
from flinkpy.records.batch import Batch
from flinkpy.sql.rex import ASYNC, InputRef, UserFunctionCall
from flinkpy.sql.types import logical_types as lt
from flinkpy.streaming.checkpoint.subtask_checkpoint_coordinator import write_states
from flinkpy.table.udf import AsyncScalarFunction, FunctionContext

INT, STRING = lt.IntType(), lt.VarCharType()
INPUT = row_info(k=INT)
OUTPUT = row_info(k=INT, found=STRING)


class Names(AsyncScalarFunction):
    """Names numbers, the larger the sooner. Fails `failures` times for each."""

    def __init__(self, failures: int = 0) -> None:
        self._failures = failures
        self.calls: list[int] = []
        self.running = self.most_running = 0

    def open(self, function_context: FunctionContext) -> None:
        self.prefix = function_context.get_job_parameter("prefix", "n")

    async def eval(self, key: int) -> Any:
        self.calls.append(key)
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        for _ in range(20 - key):
            await asyncio.sleep(0)
        self.running -= 1
        if self.calls.count(key) <= self._failures:
            raise ValueError(f"no name of {key}")
        return f"{self.prefix}{key}" if key else key


@pytest.fixture
def opened() -> Iterator[list[MailHarness]]:
    harnesses: list[MailHarness] = []
    yield harnesses
    for harness in harnesses:
        harness.operator.close()


def start(opened: list[MailHarness], function: Any, state: Any = None, **options: Any) -> MailHarness:
    call = UserFunctionCall(STRING, "name_of", function, (InputRef(INT, 0),), ASYNC)
    options = {"retry_delay_ms": 1, **options}
    harness = MailHarness(AsyncCalcSpec((call,), input_types=(INPUT,), output_type=OUTPUT, **options), state=state)
    opened.append(harness)
    return harness


def emitted(harness: MailHarness) -> list[Change]:
    return [change for item in harness.output.items if isinstance(item, Batch) for change in to_changes(item)]


def test_rows_keep_their_order_and_kinds(opened: list[MailHarness]) -> None:
    function = Names()
    calc = start(opened, function, capacity=3)
    calc.operator.process_batch(to_batch([("+I", 1), ("-U", 9), ("+U", 4), ("-D", 1), ("+I", 7)], INPUT))
    calc.drain()
    assert emitted(calc) == [("+I", 1, "n1"), ("-U", 9, "n9"), ("+U", 4, "n4"), ("-D", 1, "n1"), ("+I", 7, "n7")]
    assert function.most_running == 3


def test_a_call_that_fails_is_made_again(opened: list[MailHarness]) -> None:
    calc = start(opened, Names(failures=2), max_attempts=2)
    calc.operator.process_batch(to_batch([("+I", 3)], INPUT))
    calc.drain()
    assert emitted(calc) == [("+I", 3, "n3")]


@pytest.mark.parametrize(("key", "error"), [(1, FunctionError), (0, TypeMismatchError)])
def test_errors_name_the_function(opened: list[MailHarness], key: int, error: type[Exception]) -> None:
    calc = start(opened, Names(failures=2 * key), max_attempts=1)
    calc.operator.process_batch(to_batch([("+I", key)], INPUT))
    with pytest.raises(error, match="the function name_of r"):
        calc.drain()


class Never(AsyncScalarFunction):
    async def eval(self, key: int) -> Any:
        await asyncio.Event().wait()


def test_a_call_that_takes_too_long_fails(opened: list[MailHarness]) -> None:
    calc = start(opened, Never(), timeout_ms=1)
    calc.operator.process_batch(to_batch([("+I", 3)], INPUT))
    with pytest.raises(FunctionError, match="Async function call has timed out"):
        calc.drain()


class Refusing(AsyncScalarFunction):
    """Raises the TimeoutError of a client library at the first calls."""

    def __init__(self, failures: int) -> None:
        self._failures = failures

    async def eval(self, key: int) -> Any:
        self._failures -= 1
        if self._failures >= 0:
            raise TimeoutError("the server does not answer")
        return f"n{key}"


def test_a_timeout_that_the_function_raises_is_an_error_like_any_other(opened: list[MailHarness]) -> None:
    calc = start(opened, Refusing(2), max_attempts=2)
    calc.operator.process_batch(to_batch([("+I", 3)], INPUT))
    calc.drain()
    assert emitted(calc) == [("+I", 3, "n3")]

    failing = start(opened, Refusing(2), max_attempts=1)
    failing.operator.process_batch(to_batch([("+I", 3)], INPUT))
    with pytest.raises(FunctionError, match="the server does not answer"):
        failing.drain()


def test_rows_in_flight_are_in_the_checkpoint(opened: list[MailHarness]) -> None:
    calc = start(opened, Never())
    calc.operator.process_batch(to_batch([("+I", 3), ("-D", 5)], INPUT))
    files = MemoryStreams()
    snapshot = checkpoint_pb2.TaskStateSnapshot()
    for operator_id, state in write_states(calc.operator.snapshots(1, OPTIONS), files).items():
        snapshot.operators[operator_id].CopyFrom(state)
    restored = start(opened, Names(), FakeTaskStateManager(snapshot, files=files))
    restored.drain()
    assert emitted(restored) == [("+I", 3, "n3"), ("-D", 5, "n5")]


def test_a_checkpoint_contains_each_row_in_flight_once(opened: list[MailHarness]) -> None:
    calc = start(opened, Never())
    batch = to_batch([("+I", key) for key in range(4_096)], INPUT)
    calc.operator.process_batch(batch)
    files = MemoryStreams()
    write_states(calc.operator.snapshots(1, OPTIONS), files)
    assert sum(map(len, files.files.values())) < 2 * batch.values.nbytes
