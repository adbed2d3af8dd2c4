"""Sources send latency markers, and operators record their age."""

from __future__ import annotations

from typing import Any

import pytest
from operator_fakes import SourceLife
from streaming_fakes import FakeResultPartition, OperatorHarness

from flinkpy.connectors.number_sequence import NumberSequenceSource
from flinkpy.graph import operator_specs as specs
from flinkpy.metrics.metric_registry import read_metric
from flinkpy.network.partitioner import RebalancePartitioner
from flinkpy.network.record_writer import RecordWriter
from flinkpy.records.batch import Batch
from flinkpy.records.elements import LatencyMarker
from flinkpy.streaming.io.record_writer_output import RecordWriterOutput


def markers_of(configuration: dict[str, str], steps: list[int]) -> list[LatencyMarker]:
    life = SourceLife(NumberSequenceSource(0, 9), configuration=configuration, subtask_index=2, parallelism=4)
    for step in steps:
        life.clock.advance(step)
        life.context.processing_time_service.fire_due(life.clock.monotonic_ns())
    return [element for element in life.output.elements if isinstance(element, LatencyMarker)]


def test_source_sends_a_marker_at_once_and_then_one_per_interval() -> None:
    markers = markers_of({"metrics.latency.interval": "100 ms"}, [1, 50, 51, 101])

    assert [(marker.operator_id, marker.subtask_index) for marker in markers] == [("op", 2)] * 3
    first, second, third = (marker.marked_time_ms for marker in markers)
    assert (second - first, third - second) == (101, 101)


@pytest.mark.parametrize(
    "configuration",
    [{}, {"metrics.latency.interval": "0"}, {"metrics.latency.interval": "1 ms", "execution.runtime-mode": "BATCH"}],
)
def test_source_sends_no_markers_without_an_interval_or_in_batch_mode(configuration: dict[str, str]) -> None:
    assert markers_of(configuration, [1, 1_000]) == []


@pytest.mark.parametrize(
    ("granularity", "names"),
    [
        ("single", {"latency.operator_id.op0.operator_subtask_index.1.latency": 3}),
        (
            "operator",
            {
                "latency.source_id.a.operator_id.op0.operator_subtask_index.1.latency": 2,
                "latency.source_id.b.operator_id.op0.operator_subtask_index.1.latency": 1,
            },
        ),
        (
            "subtask",
            {
                "latency.source_id.a.source_subtask_index.0.operator_id.op0.operator_subtask_index.1.latency": 1,
                "latency.source_id.a.source_subtask_index.3.operator_id.op0.operator_subtask_index.1.latency": 1,
                "latency.source_id.b.source_subtask_index.0.operator_id.op0.operator_subtask_index.1.latency": 1,
            },
        ),
    ],
)
def test_operator_records_the_age_of_markers_and_forwards_them(granularity: str, names: dict[str, int]) -> None:
    harness = OperatorHarness(
        specs.FilterBatchesSpec(None), configuration={"metrics.latency.granularity": granularity}, subtask=(1, 2)
    )
    now = harness.service.current_time_ms()
    markers = [LatencyMarker(now - 7, "a", 0), LatencyMarker(now - 7, "a", 3), LatencyMarker(now - 7, "b", 0)]
    for marker in markers:
        harness.operator.process_element(marker)

    assert harness.output.items == markers
    told: dict[str, Any] = {
        name: read_metric(metric) for name, metric in harness.context.metrics.metrics() if name.startswith("latency.")
    }
    assert {name: value.value for name, value in told.items()} == names
    assert {value.statistics["p99"] for value in told.values()} == {7.0}


def test_histogram_covers_the_configured_history() -> None:
    harness = OperatorHarness(specs.FilterBatchesSpec(None), configuration={"metrics.latency.history-size": "2"})
    now = harness.service.current_time_ms()
    for age in (900, 5, 7):
        harness.operator.process_element(LatencyMarker(now - age, "a", 0))

    ((_, metric),) = [each for each in harness.context.metrics.metrics() if each[0].startswith("latency.")]
    assert read_metric(metric).statistics["max"] == 7.0


def test_markers_follow_the_records_to_one_channel_after_the_other() -> None:
    partition = FakeResultPartition(3)
    writer = RecordWriter(partition, RebalancePartitioner(), buffer_timeout_ms=-1)  # type: ignore[arg-type]
    output = RecordWriterOutput(writer, partition)  # type: ignore[arg-type]
    markers = [LatencyMarker(time, "a", 0) for time in range(4)]
    output.emit(Batch([1, 2, 3, 4, 5, 6]))
    for marker in markers:
        output.emit_element(marker)

    assert [isinstance(items[0], Batch) for items in partition.items] == [True] * 3
    assert [items[1:] for items in partition.items] == [[markers[0], markers[3]], [markers[1]], [markers[2]]]
