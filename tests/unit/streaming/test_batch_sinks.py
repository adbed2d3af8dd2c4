"""Sinks in batch mode: writers emit their committables, and one task commits all of them at the end."""

from __future__ import annotations

from typing import Any

import pytest
from streaming_fakes import CollectingOutput, OperatorHarness

from flinkpy.common.errors import CommitError
from flinkpy.connector_api.sink import CommitRequest, Committer, SinkBase, SinkWriter, WriterContext
from flinkpy.graph.operator_specs import SinkCommitterSpec, SinkWriterSpec
from flinkpy.records.batch import Batch
from flinkpy.records.elements import Watermark
from flinkpy.streaming.operators.batch_sink_operators import job_id_of_sink
from flinkpy.streaming.operators.factory import create_operator


class ListingSink(SinkBase):
    """Commits pairs of records to a list. The first `failures` calls of the committer raise."""

    def __init__(self, failures: int = 0) -> None:
        self.committed: list[Any] = []
        self.failures = failures
        self.num_closed = 0

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return _Writer()

    def create_committer(self) -> Committer:
        return _Committer(self)


class _Writer(SinkWriter):
    def __init__(self) -> None:
        self._rows: list[Any] = []
        self._is_flushed = False

    def write(self, batch: Batch) -> None:
        self._rows += batch.values

    def flush(self, end_of_input: bool) -> None:
        self._is_flushed = end_of_input

    def prepare_commit(self) -> list[Any]:
        assert self._is_flushed
        return [tuple(self._rows[i : i + 2]) for i in range(0, len(self._rows), 2)]


class _Committer(Committer):
    def __init__(self, sink: ListingSink) -> None:
        self._sink = sink

    def commit(self, requests: list[CommitRequest]) -> None:
        for request in requests:
            if request.get_committable() not in self._sink.committed:
                self._sink.committed.append(request.get_committable())
            if self._sink.failures:
                self._sink.failures -= 1
                raise OSError("the store does not answer")

    def close(self) -> None:
        self._sink.num_closed += 1


def written(sink: ListingSink, rows: list[int]) -> list[bytes]:
    writer = OperatorHarness(SinkWriterSpec(sink, input_types=(None,)))
    writer.process(rows)
    assert writer.output.rows == [], "nothing is handed on before the end"
    writer.operator.finish()
    writer.operator.close()
    return list(writer.output.rows)


def committer(sink: ListingSink) -> OperatorHarness:
    return OperatorHarness(SinkCommitterSpec(sink, input_types=(None,)), configuration={"sink.committer.retries": "0"})


def test_a_writer_emits_its_committables_and_commits_nothing() -> None:
    sink = ListingSink()
    assert len(written(sink, [1, 2, 3])) == 2
    assert sink.committed == []


def test_all_committables_are_committed_together_at_the_end() -> None:
    sink = ListingSink()
    one, other = written(sink, [1, 2, 3]), written(sink, [4, 5])
    harness = committer(sink)
    harness.process(one)
    harness.process(other)
    assert sink.committed == []
    harness.operator.finish()
    assert sink.committed == [(1, 2), (3,), (4, 5)]


def test_a_committer_without_committables_makes_no_connection() -> None:
    sink = ListingSink()
    harness = committer(sink)
    harness.operator.finish()
    harness.operator.close()
    assert sink.num_closed == 0


def test_a_failed_commit_fails_the_task_and_the_next_attempt_commits_everything_once() -> None:
    sink = ListingSink(failures=1)
    handed_on = written(sink, [1, 2, 3, 4])
    first = committer(sink)
    first.process(handed_on)
    with pytest.raises(CommitError, match="does not answer"):
        first.operator.finish()
    assert sink.committed == [(1, 2)]
    second = committer(sink)
    second.process(handed_on)
    second.operator.finish()
    assert sink.committed == [(1, 2), (3, 4)]
    assert sink.num_closed == 3  # one of the writer's, which looks whether there is one


class ContextsSink(ListingSink):
    """Keeps the contexts of its writers."""

    def __init__(self) -> None:
        super().__init__()
        self.contexts: list[WriterContext] = []

    def create_writer(self, context: WriterContext) -> SinkWriter:
        self.contexts.append(context)
        return super().create_writer(context)


def test_a_writer_whose_committables_are_final_is_not_created_and_drops_its_records() -> None:
    sink = ContextsSink()
    spec = SinkWriterSpec(sink, input_types=(None,))
    harness = OperatorHarness(spec)
    harness.environment.vertex.chain[0].outputs.add(result=1)
    for final in (frozenset({0}), frozenset({1})):
        sink.contexts.clear()
        harness.environment.final_results = final
        output = CollectingOutput()
        operator = create_operator(spec, harness.context, output, {})
        operator.open()
        operator.process_batch(Batch([1, 2, 3]))
        operator.process_watermark(Watermark(10))
        operator.finish()
        operator.close()
        assert (len(sink.contexts), len(output.rows)) == ((1, 2) if final == {0} else (0, 0))


def test_writers_of_two_sinks_have_different_job_ids() -> None:
    """Both may write to one directory, and each removes only what its own predecessors have left there."""
    one, other = job_id_of_sink("a" * 32, "b" * 32), job_id_of_sink("a" * 32, "c" * 32)
    assert one != other
    sink = ContextsSink()
    harness = OperatorHarness(SinkWriterSpec(sink, input_types=(None,)))
    (context,) = sink.contexts
    assert context.job_id == job_id_of_sink(harness.environment.job_id, harness.context.operator_id)
    name = f"flinkpy-{one}-0"
    assert len(name) <= 64, "PostgreSQL allows 64 characters in each part of the name of a transaction"
