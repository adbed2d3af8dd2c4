"""Runs the graph of a column program in this process, operator by operator, with one subtask each."""

from __future__ import annotations

from typing import Any

from streaming_fakes import OperatorHarness

from flinkpy.connector_api.source import ReaderStatus
from flinkpy.datastream import StreamExecutionEnvironment
from flinkpy.graph import operator_specs as specs
from flinkpy.graph.batch_mode import runs_in_batch_mode, to_batch_mode
from flinkpy.graph.column_optimizer import optimize_columns
from flinkpy.graph.stream_graph import StreamGraph, StreamNode
from flinkpy.records.batch import Batch
from flinkpy.records.lanes import rows_of


class _ReaderContext:
    """The context of a reader that receives all its splits at once."""

    def __init__(self, max_batch_rows: int) -> None:
        self.max_batch_rows = max_batch_rows

    def send_split_request(self) -> None:
        return

    def notify_available(self) -> None:
        return

    def split_finished(self, split_id: str) -> None:
        return


def graph_of(env: StreamExecutionEnvironment) -> StreamGraph:
    """Returns the graph that `generate_job_graph` builds."""
    graph = env.get_stream_graph(clear_transformations=False)
    configuration = env.get_configuration()
    is_batch = runs_in_batch_mode(graph, configuration)
    if is_batch:
        to_batch_mode(graph, configuration)
    optimize_columns(graph, configuration, is_batch)
    return graph


def run(env: StreamExecutionEnvironment, max_batch_rows: int = 7) -> list[tuple[Any, ...]]:
    """Returns the rows of the program's last operator, in their order."""
    graph = graph_of(env)
    mode = env.get_configuration().get_string("execution.runtime-mode", "STREAMING")
    given: dict[int, list[Batch]] = {}
    for node in graph.nodes:
        given[node.id] = _read(node, max_batch_rows) if node.transformation.is_source else _operate(node, given, mode)
    last = graph.nodes[-1]
    return [tuple(row) for batch in given[last.id] for row in rows_of(batch, last.spec.output_type)]


def _read(node: StreamNode, max_batch_rows: int) -> list[Batch]:
    spec = node.spec
    assert isinstance(spec, specs.SourceSpec)
    context: Any = _ReaderContext(max_batch_rows)
    reader = spec.source.create_reader(context)
    reader.add_splits(spec.source.list_splits(2))
    reader.notify_no_more_splits()
    batches = []
    while (batch := reader.poll_batch()) is not ReaderStatus.END_OF_INPUT:
        if isinstance(batch, Batch):
            batches.append(batch)
    return batches


def _operate(node: StreamNode, given: dict[int, list[Batch]], mode: str) -> list[Batch]:
    harness = OperatorHarness(node.spec, configuration={"execution.runtime-mode": mode})
    # The build side comes first, which a runtime is free to do. The results do not depend on it.
    for index in reversed(range(len(node.transformation.inputs))):
        for edge in node.in_edges:
            if edge.input_index == index:
                for batch in given[edge.source.id]:
                    harness.operator.process_batch(batch, index)
        harness.operator.end_input(index)
    harness.operator.finish()
    harness.operator.close()
    return harness.output.items
