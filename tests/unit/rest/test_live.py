"""The operations that the dashboard polls: tables of which a reader gets what changed."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from rest_harness import NOW_MS
from test_job_operations import JOB, SINK, SOURCE, Jobs, metric_group

from flinkpy._proto import common_pb2
from flinkpy.common.states import ExecutionState
from flinkpy.rest.live_table import MAX_TABLES, LiveTable, LiveTables, SparseColumn

WIDE = [f"subtask {index}" for index in range(10)]


def table_of(**columns: list[Any]) -> LiveTable:
    table = LiveTable()
    table.update(WIDE, columns)
    return table


def test_a_new_reader_gets_everything() -> None:
    table = table_of(busy=[0] * 10)
    assert table.changes(None) == (True, {"busy": [0] * 10})
    assert table.changes(table.version) == (False, {})


def test_a_reader_gets_the_cells_that_changed_since_its_version() -> None:
    table = table_of(busy=[0] * 10, status=["RUNNING"] * 10)
    first = table.version
    table.update(WIDE, {"busy": [0, 5, *[0] * 8], "status": ["RUNNING"] * 10})
    second = table.version
    table.update(WIDE, {"busy": [0, 5, 7, *[0] * 7], "status": ["RUNNING"] * 10})
    assert table.changes(second) == (False, {"busy": SparseColumn(rows=[2], values=[7])})
    assert table.changes(first) == (False, {"busy": SparseColumn(rows=[1, 2], values=[5, 7])})


def test_a_column_of_which_most_changed_is_sent_whole() -> None:
    table = table_of(busy=[0] * 10)
    known = table.version
    table.update(WIDE, {"busy": [1] * 5 + [0] * 5})
    assert table.changes(known) == (False, {"busy": [1] * 5 + [0] * 5})


@pytest.mark.parametrize(
    ("rows", "columns"), [(WIDE[:9], {"busy": [0] * 9}), (WIDE, {"busy": [0] * 10, "idle": [0] * 10})]
)
def test_rows_or_columns_that_come_or_go_make_the_answer_full(rows: list[str], columns: dict[str, list[int]]) -> None:
    table = table_of(busy=[0] * 10)
    known = table.version
    table.update(rows, columns)
    assert table.changes(known) == (True, columns)
    assert table.changes(table.version) == (False, {})


@pytest.mark.parametrize(
    "version", ["", "x", "-1", "00000000-1", "{epoch}-", "{epoch}-2", "{epoch}--1", "{epoch}-\u0661"]
)
def test_a_version_of_another_server_or_of_nobody_makes_the_answer_full(version: str) -> None:
    table = table_of(busy=[0] * 10)
    assert table.changes(version.format(epoch=table.epoch))[0]


def test_the_same_answers_leave_a_table_as_it_is_and_tables_are_bounded() -> None:
    tables = LiveTables()
    answer = object()
    for _ in range(3):
        assert tables.updated("a", [answer], lambda: (["row"], {"busy": [1]})).revision == 1
    assert tables.updated("a", [object()], lambda: (["row"], {"busy": [1]})).revision == 2
    for number in range(MAX_TABLES):
        tables.updated(number, [answer], lambda: ([], {}))
    assert tables.updated("a", [answer], lambda: ([], {})).revision == 1, "it was forgotten"


@pytest.fixture
def jobs() -> Jobs:
    jobs = Jobs()
    jobs.dispatcher.groups = [
        metric_group(0, busyTimeMsPerSecond=250, backPressuredTimeMsPerSecond=700.0, numRecordsOutPerSecond=1234.5),
        metric_group(1, 1, busyTimeMsPerSecond=50, backPressuredTimeMsPerSecond=100.0, numRecordsOutPerSecond=0.5),
        metric_group(1, 0, busyTimeMsPerSecond=999),  # the former attempt
        metric_group(0, 0, "map", currentOutputWatermark=50),
        metric_group(1, 1, "map", currentOutputWatermark=40),
    ]
    return jobs


def later(jobs: Jobs) -> None:
    """Lets the answers of the services grow too old."""
    jobs.clock.advance(jobs.options.refresh_interval_ms)


def test_a_job_is_told_as_a_table_of_its_vertices(jobs: Jobs) -> None:
    told = jobs.get("/live")
    assert (told["full"], told["state"], told["age"], told["now"]) == (True, "RUNNING", 0, NOW_MS)
    columns = told["columns"]
    assert (columns["status"], columns["tasks.RUNNING"]) == (["RUNNING", "CREATED"], [2, 0])
    assert (columns["busy"], columns["busyMax"]) == ([15, None], [25, None])
    assert (columns["backPressured"], columns["backPressuredMax"]) == ([40, None], [70, None])
    assert (columns["recordsIn"], columns["recordsOutRate"]) == ([30, 0], [1240.0, None])
    # The watermark of a source is that of its operators; a vertex has that of its last subtask.
    assert (columns["watermark"], columns["watermarkMax"]) == ([40, None], [50, None])


def test_an_answer_without_changes_has_no_columns(jobs: Jobs) -> None:
    version = jobs.get("/live")["version"]
    later(jobs)
    again = jobs.get(f"/live?since={version}")
    assert (again["full"], again["columns"]) == (False, {})
    assert len(json.dumps(again)) < 200


def test_a_vertex_is_told_as_a_table_of_its_subtasks(jobs: Jobs) -> None:
    told = jobs.get(f"/vertices/{SOURCE}/live")
    columns = told["columns"]
    assert (columns["status"], columns["attempt"]) == (["RUNNING"] * 2, [0, 1])
    assert (columns["busy"], columns["idle"], columns["recordsIn"]) == ([25, 5], [None, None], [10, 20])
    assert (columns["watermark"], columns["endpoint"]) == ([50, 40], ["host:7"] * 2)
    jobs.dispatcher.job.vertices[0].subtasks[1].state = ExecutionState.FAILED.value
    later(jobs)
    changed = jobs.get(f"/vertices/{SOURCE}/live?since={told['version']}")
    assert changed["columns"]["status"] == ["RUNNING", "FAILED"] and "attempt" not in changed["columns"]


def test_subtasks_without_a_watermark_hold_the_vertex_back(jobs: Jobs) -> None:
    sink = [metric_group(0, currentInputWatermark=7), metric_group(1, currentInputWatermark=-(1 << 63))]
    for group in sink:
        group.vertex_id = SINK
    jobs.dispatcher.groups = sink
    columns = jobs.get("/live")["columns"]
    assert (columns["watermark"], columns["watermarkMax"]) == ([None, None], [None, 7])


def test_an_ended_job_is_told_without_loads(jobs: Jobs) -> None:
    jobs.dispatcher.job.status, jobs.dispatcher.job.end_time_ms = common_pb2.FINISHED, NOW_MS
    told = jobs.get("/live")
    assert (told["state"], told["columns"]["busy"]) == ("FINISHED", [None, None])


def test_unknown_jobs_and_vertices_are_not_found(jobs: Jobs) -> None:
    assert jobs.call("GET", f"/jobs/{'f' * 32}/live").status_code == 404
    jobs.get(f"/vertices/{'f' * 32}/live", 404)
    assert jobs.call("GET", f"/jobs/{JOB}/live", role=None).status_code == 401


def test_polls_of_three_hundred_subtasks_are_small() -> None:
    """First poll and a poll after a tenth of the subtasks changed, in bytes."""
    table = LiveTable()
    names = ("status", "busy", "backPressured", "idle", "recordsIn", "recordsOut", "recordsInRate", "watermark")
    columns: dict[str, list[Any]] = {name: [1_234_567 + row for row in range(300)] for name in names}
    table.update(range(300), columns)
    known = table.version
    for name in names[1:]:
        columns[name] = [value + (row % 10 == 0) for row, value in enumerate(columns[name])]
    table.update(range(300), columns)
    full, sparse = (len(msgspec.json.encode(table.changes(version)[1])) for version in (None, known))
    assert full < 25_000 and sparse < full / 3
