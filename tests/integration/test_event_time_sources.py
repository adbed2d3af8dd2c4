"""Event time at sources, and user-defined sources and sinks, on a real cluster."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from clusters import no_leaks
from job_support import DEADLINE_S, FIXED_DELAY, environment, wait_until

from flinkpy.client.local_cluster import LocalCluster, LocalClusterOptions
from flinkpy.common import SimpleStringSchema, Types, WatermarkStrategy
from flinkpy.common.errors import CheckpointError
from flinkpy.common.time import Duration
from flinkpy.common.watermark_strategy import TimestampAssigner, Watermark, WatermarkGenerator
from flinkpy.connector_api.source import SourceBase
from flinkpy.connectors.number_sequence import NumberSequenceSource
from flinkpy.datastream import StreamExecutionEnvironment
from flinkpy.datastream.checkpointed_function import CheckpointedFunction, CheckpointListener
from flinkpy.datastream.connectors.datagen import DataGeneratorSource, GeneratorFunction, RateLimiterStrategy
from flinkpy.datastream.connectors.hybrid_source import HybridSource
from flinkpy.datastream.functions import (
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    MapFunction,
    ParallelSourceFunction,
    ProcessFunction,
    SinkFunction,
    SourceFunction,
)
from flinkpy.datastream.state import ListStateDescriptor

NO_WATERMARKS = WatermarkStrategy.no_watermarks()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimpleNamespace]:
    """A cluster of two TaskExecutors with two slots each, for all tests of this file."""
    temporary = tmp_path_factory.mktemp("tmp")
    local = LocalCluster(
        LocalClusterOptions(
            num_task_executors=2,
            properties={"taskmanager.numberOfTaskSlots": "2"},
            log_dir=tmp_path_factory.mktemp("logs"),
            temporary_dir=temporary / "cluster",
        )
    )
    with no_leaks(temporary) as watch:
        local.start()
        try:
            yield SimpleNamespace(properties=local.client_properties)
        finally:
            watch.expect_closed(process for process in local.processes)
            local.stop()


class Itself(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value


class WithWatermark(ProcessFunction):
    """Emits (record, its timestamp, the watermark at its arrival)."""

    def process_element(self, value, ctx):
        yield (value, ctx.timestamp(), ctx.timer_service().current_watermark())


class EveryRecord(WatermarkGenerator):
    def on_event(self, event, timestamp, output):
        output.emit_watermark(Watermark(timestamp))

    def on_periodic_emit(self, output):
        return


class Two(GeneratorFunction):
    """Generates columns: an id and a time in microseconds."""

    def map_batch(self, indices):
        times = pa.array(indices * 1_000_000, pa.timestamp("us"))
        return pa.RecordBatch.from_arrays([pa.array(indices), times], names=["id", "at"])


def test_a_watermark_per_event_is_visible_to_the_next_record_for_any_batch_size(cluster: Any) -> None:
    env = environment(cluster, 1)
    strategy = WatermarkStrategy.for_generator(EveryRecord).with_timestamp_assigner(Itself())
    stream = env.from_source(NumberSequenceSource(1, 2_000), strategy, "numbers")
    with stream.process(WithWatermark()).execute_and_collect() as results:
        rows = list(results)

    assert rows[0][1:] == (1, -(1 << 63))
    assert rows[1:] == [(value, value, value - 1) for value in range(2, 2_001)]


def test_timers_fire_by_event_time_from_a_column(cluster: Any) -> None:
    class Timers(KeyedProcessFunction):
        def process_element(self, value, ctx):
            ctx.timer_service().register_event_time_timer(ctx.timestamp())

        def on_timer(self, timestamp, ctx):
            yield (ctx.get_current_key(), timestamp)

    env = environment(cluster, 2)
    kind = Types.ROW_NAMED(["id", "at"], [Types.LONG(), Types.SQL_TIMESTAMP()])
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("at")
    stream = env.from_source(DataGeneratorSource(Two(), 10, type_info=kind), strategy, "generated")
    with stream.key_by(lambda row: row[0] % 3).process(Timers()).execute_and_collect() as results:
        assert sorted(results) == sorted((index % 3, index * 1_000) for index in range(10))


class IdleUntil(SourceFunction):
    """A source that is idle until the file exists, and then emits one record later than all others."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = path
        self.is_running = True

    def run(self, ctx):
        ctx.mark_as_temporarily_idle()
        while self.is_running and not os.path.exists(self.path):
            time.sleep(0.01)
        ctx.collect_with_timestamp(("idle", 0), 5_000)

    def cancel(self):
        self.is_running = False


class TouchesOnTimer(KeyedProcessFunction, KeyedCoProcessFunction):
    """Creates the file when event time reaches 500."""

    def __init__(self, path: str) -> None:
        self.path = path

    def process_element(self, value, ctx):
        if ctx.timestamp() == 500:
            ctx.timer_service().register_event_time_timer(500)
        yield value[0]

    process_element1 = process_element2 = process_element

    def on_timer(self, timestamp, ctx):
        Path(self.path).touch()


class Endless(SourceFunction):
    """A source that emits records and watermarks until the file exists."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = path
        self.is_running = True

    def run(self, ctx):
        for timestamp in range(1 << 40):
            if not self.is_running or os.path.exists(self.path):
                return
            ctx.collect_with_timestamp(("active", timestamp), timestamp)
            ctx.emit_watermark(timestamp)
            if timestamp > 1_000:
                time.sleep(0.01)

    def cancel(self):
        self.is_running = False


@pytest.mark.parametrize("how", [pytest.param("union", marks=pytest.mark.chaos), "connect"])
def test_operators_do_not_wait_for_an_idle_source(cluster: Any, tmp_path: Path, how: str) -> None:
    path = str(tmp_path / "fired")
    env = environment(cluster, 2)
    kind = Types.TUPLE([Types.STRING(), Types.LONG()])
    active = env.add_source(Endless(path), "active", kind)
    idle = env.add_source(IdleUntil(path), "idle", kind)
    if how == "union":
        keyed: Any = active.union(idle).key_by(lambda value: value[1] % 3)
    else:
        keyed = active.connect(idle).key_by(lambda value: value[1] % 3, lambda value: value[1])
    with keyed.process(TouchesOnTimer(path), Types.STRING()).execute_and_collect() as results:
        assert set(results) == {"active", "idle"}


class Held(SourceFunction):
    """Emits a record at 0 and one at `end`, and reports how far the other source has advanced in between.

    Between the records it waits until the other source has stopped for a while, or, if that source should not stop,
    until it has emitted `awaited` records.
    """

    def __init__(self, path: str, end: int, awaited: int | None) -> None:
        super().__init__()
        self.path, self.end, self.awaited = path, end, awaited
        self.is_running = True

    def run(self, ctx):
        ctx.collect_with_timestamp(0, 0)
        last, since = None, time.monotonic()
        while self.is_running:
            seen = os.path.getsize(self.path) if os.path.exists(self.path) else None
            if seen != last or seen is None:
                last, since = seen, time.monotonic()
            elif self.awaited is not None:
                if seen == self.awaited:
                    break
            elif time.monotonic() - since > 0.8:
                break
            time.sleep(0.02)
        with open(self.path + ".held", "w") as file:
            file.write(str(last))
        ctx.collect_with_timestamp(self.end, self.end)

    def cancel(self):
        self.is_running = False


class Marks(SinkFunction):
    """Counts records in the size of a file, and fails once after a number of them."""

    def __init__(self, path: str, fails_at: int | None = None) -> None:
        super().__init__()
        self.path = path
        self.fails_at = fails_at

    def open(self, runtime_context):
        self.file = open(self.path, "ab", buffering=0)  # noqa: SIM115 - closed by close()

    def invoke(self, value, context):
        if value == self.fails_at and not os.path.exists(self.path + ".failed"):
            Path(self.path + ".failed").touch()
            raise RuntimeError("once")
        self.file.write(b".")

    def close(self):
        self.file.close()


FAST_RECORDS = 10_000


def held_at(cluster: Any, path: str, is_aligned: bool, fails_at: int | None = None) -> int:
    """Returns how many records the fast source emitted, one per ms of event time, while the slow source was at 0."""
    env = environment(
        cluster,
        1,
        **{
            **FIXED_DELAY,
            "pipeline.auto-watermark-interval": "20 ms",
            "pipeline.watermark-alignment.buffer-size": "0",
        },
    )
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    if is_aligned:
        strategy = strategy.with_watermark_alignment("g", Duration.of_millis(100), Duration.of_millis(50))
    generated = DataGeneratorSource(int, FAST_RECORDS, RateLimiterStrategy.per_second(4_000), Types.LONG())
    fast = env.from_source(generated, strategy.with_timestamp_assigner(Itself()), "fast")
    fast.add_sink(Marks(path, fails_at)).set_parallelism(1)
    held = Held(path, FAST_RECORDS, None if is_aligned else FAST_RECORDS)
    slow = env.from_source(held.to_source(), strategy, "slow").force_non_parallel()
    slow.print().set_parallelism(1)
    env.execute()
    # At the end everything has been read. Only records from before a failure may be repeated.
    assert os.path.getsize(path) == FAST_RECORDS + (fails_at or 0)
    return int(Path(path + ".held").read_text())


def test_a_fast_source_waits_for_a_slow_one_of_its_group(cluster: Any, tmp_path: Path) -> None:
    assert held_at(cluster, str(tmp_path / "free"), is_aligned=False) == FAST_RECORDS
    assert held_at(cluster, str(tmp_path / "aligned"), is_aligned=True) < FAST_RECORDS


def test_a_source_that_was_restarted_still_waits_for_the_others(cluster: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "aligned")

    assert held_at(cluster, path, is_aligned=True, fails_at=20) < FAST_RECORDS
    assert os.path.exists(path + ".failed")


class Ticks(ParallelSourceFunction, CheckpointedFunction):
    """Emits a share of 0 to `end` in each subtask. It resumes at its checkpoint and fails before it ends."""

    def __init__(self, end: int, failed_path: str) -> None:
        super().__init__()
        self.end, self.failed_path = end, failed_path
        self.is_running = True

    def initialize_state(self, context):
        self.state = context.get_operator_state_store().get_list_state(ListStateDescriptor("next", Types.LONG()))
        self.restored = list(self.state.get())

    def open(self, runtime_context):
        self.step = runtime_context.get_number_of_parallel_subtasks()
        self.next = self.restored[0] if self.restored else runtime_context.get_index_of_this_subtask()

    def snapshot_state(self, context):
        self.state.update([self.next])

    def run(self, ctx):
        while self.is_running and self.next < self.end:
            has_failed = os.path.exists(self.failed_path)
            if not has_failed and self.next >= self.end // 2:
                time.sleep(0.001)
                if self.next + self.step >= self.end:
                    continue
            with ctx.get_checkpoint_lock():
                ctx.collect_with_timestamp(self.next, self.next)
                self.next += self.step

    def cancel(self):
        self.is_running = False


class Fails(SinkFunction, CheckpointedFunction):
    """Keeps its records in state, fails once at a checkpoint, and emits the records at the end."""

    def __init__(self, failed_path: str, result_path: str) -> None:
        super().__init__()
        self.failed_path, self.result_path = failed_path, result_path

    def initialize_state(self, context):
        self.state = context.get_operator_state_store().get_list_state(ListStateDescriptor("seen", Types.LONG()))
        self.seen = list(self.state.get())

    def snapshot_state(self, context):
        self.state.update(self.seen)

    def notify_checkpoint_complete(self, checkpoint_id):
        if len(self.seen) > 500 and not os.path.exists(self.failed_path):
            Path(self.failed_path).touch()
            raise RuntimeError("once")

    def invoke(self, value, context):
        assert context.timestamp() == value
        self.seen.append(value)

    def finish(self):
        Path(self.result_path).write_text(" ".join(map(str, self.seen)))


def test_source_and_sink_functions_resume_exactly_at_their_checkpoint(cluster: Any, tmp_path: Path) -> None:
    failed, result = str(tmp_path / "failed"), tmp_path / "result"
    env = environment(cluster, 2, **FIXED_DELAY)
    env.enable_checkpointing(50)
    stream = env.add_source(Ticks(4_000, failed), "ticks", Types.LONG())
    stream.add_sink(Fails(failed, str(result))).set_parallelism(1)
    env.execute()

    assert os.path.exists(failed), "the fault did not happen, so the test proves nothing"
    assert sorted(map(int, result.read_text().split())) == list(range(4_000))


RECORDS = 6_000


def hybrid() -> HybridSource:
    half = RECORDS // 2
    return HybridSource.builder(slow_numbers(0, half)).add_source(slow_numbers(half, RECORDS)).build()


def slow_numbers(first: int, end: int) -> DataGeneratorSource:
    """Returns a source that is slow enough for several checkpoints."""
    limit = RateLimiterStrategy.per_checkpoint(500)
    return DataGeneratorSource(lambda index: first + index, end - first, limit, Types.LONG())


@pytest.mark.parametrize(
    "make_source",
    [hybrid, pytest.param(lambda: slow_numbers(0, RECORDS), marks=pytest.mark.chaos)],
    ids=["hybrid", "generated"],
)
def test_a_source_resumes_exactly_at_its_checkpoint_after_a_failure(
    cluster: Any, tmp_path: Path, make_source: Callable[[], SourceBase]
) -> None:
    failed, result = str(tmp_path / "failed"), tmp_path / "result"
    env = environment(cluster, 2, **FIXED_DELAY)
    env.enable_checkpointing(50)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column(0)
    env.from_source(make_source(), strategy, "source").add_sink(Fails(failed, str(result))).set_parallelism(1)
    env.execute()

    assert os.path.exists(failed), "the fault did not happen, so the test proves nothing"
    assert sorted(map(int, result.read_text().split())) == list(range(RECORDS))


class Seen(SinkFunction, CheckpointedFunction):
    """Collects all records, also across savepoints. The size of a file shows their number, and a second file has the
    values at the end.
    """

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = path

    def initialize_state(self, context):
        self.state = context.get_operator_state_store().get_list_state(ListStateDescriptor("seen", Types.LONG()))
        self.seen = list(self.state.get())

    def snapshot_state(self, context):
        self.state.update(self.seen)

    def open(self, runtime_context):
        self.file = open(self.path, "ab", buffering=0)  # noqa: SIM115 - closed by close()

    def invoke(self, value, context):
        self.seen.append(value)
        self.file.write(b".")

    def finish(self):
        Path(self.path + ".values").write_text(" ".join(map(str, self.seen)))

    def close(self):
        self.file.close()


def stopped(client: Any, drain: bool, directory: Path) -> str | None:
    """Stops the job and returns the savepoint, or None if a task was not running yet."""
    try:
        return client.stop_with_savepoint(drain, str(directory / "savepoints")).result()
    except CheckpointError as error:
        if "Not all required tasks are running" not in str(error):
            raise
        return None


@pytest.mark.parametrize("drain", [pytest.param(False, marks=pytest.mark.chaos), True])
def test_a_source_function_stops_with_a_savepoint_and_resumes_from_it(
    cluster: Any, tmp_path: Path, drain: bool
) -> None:
    path = str(tmp_path / "seen")

    def program(end: int, **properties: str) -> StreamExecutionEnvironment:
        env = environment(cluster, 2, **properties)
        stream = env.add_source(Ticks(end, str(tmp_path / "failed")), "ticks", Types.LONG()).uid("ticks")
        stream.add_sink(Seen(path)).set_parallelism(1).uid("seen")
        return env

    client = program(1 << 40).execute_async("endless")
    wait_until(lambda: os.path.exists(path) and os.path.getsize(path) > 100, "some records")
    savepoint = wait_until(lambda: stopped(client, drain, tmp_path), "a savepoint of all tasks")
    end = 2 * os.path.getsize(path) + 10_000
    (tmp_path / "failed").touch()
    program(end, **{"execution.state-recovery.path": savepoint}).execute()

    assert sorted(map(int, Path(path + ".values").read_text().split())) == list(range(end))
    assert os.path.getsize(path) == end, "nothing came twice, and the first program's records were not made again"


def test_an_endless_source_function_can_be_cancelled(cluster: Any) -> None:
    class Unstoppable(SourceFunction):
        def run(self, ctx):
            while True:
                ctx.collect("tick")

        def cancel(self):
            return

    env = environment(cluster, 2)
    results = env.add_source(Unstoppable(), type_info=Types.STRING()).execute_and_collect()
    with results:
        assert [value for value, _ in zip(results, range(10))] == ["tick"] * 10


def test_a_hybrid_source_reads_one_source_after_the_other(cluster: Any) -> None:
    env = environment(cluster, 2)
    past, now = NumberSequenceSource(1, 1_000), NumberSequenceSource(2_001, 2_500)
    source = HybridSource.builder(past).add_source(now).build()
    with env.from_source(source, NO_WATERMARKS, "hybrid").execute_and_collect() as results:
        assert sorted(results) == [*range(1, 1_001), *range(2_001, 2_501)]


def test_collections_are_read_by_one_subtask_or_by_all(cluster: Any) -> None:
    env = environment(cluster, 2)
    streams = [
        env.from_elements(1, 2, type_info=Types.LONG()),
        env.from_data([3, 4], type_info=Types.LONG()),
        env.from_parallel_collection(range(5, 50), Types.LONG()),
    ]
    with streams[0].union(*streams[1:]).execute_and_collect() as results:
        assert sorted(results) == list(range(1, 50))


@pytest.fixture
def listeners() -> Iterator[tuple[socket.socket, socket.socket]]:
    with socket.create_server(("127.0.0.1", 0)) as first, socket.create_server(("127.0.0.1", 0)) as second:
        first.settimeout(DEADLINE_S)
        second.settimeout(DEADLINE_S)
        yield first, second


def test_text_is_copied_from_one_socket_to_another(
    cluster: Any, listeners: tuple[socket.socket, socket.socket]
) -> None:
    received: list[bytes] = []

    def serve() -> None:
        with listeners[0].accept()[0] as connection:
            connection.sendall(b"alpha\r\nbeta\n")

    def read() -> None:
        with listeners[1].accept()[0] as connection:
            while piece := connection.recv(4096):
                received.append(piece)

    threads = [threading.Thread(target=serve), threading.Thread(target=read)]
    for thread in threads:
        thread.start()
    ports = [listener.getsockname()[1] for listener in listeners]
    env = environment(cluster, 1)
    lines = env.socket_text_stream("127.0.0.1", ports[0])
    lines.map(str.upper, Types.STRING()).write_to_socket("127.0.0.1", ports[1], SimpleStringSchema())
    env.execute()
    for thread in threads:
        thread.join(DEADLINE_S)

    assert b"".join(received) == b"ALPHABETA"


def test_generated_records_keep_their_rate_and_stop_with_a_savepoint(cluster: Any, tmp_path: Path) -> None:
    counted = str(tmp_path / "count")
    env = environment(cluster, 2)
    env.enable_checkpointing(50)
    source = DataGeneratorSource(int, None, RateLimiterStrategy.per_checkpoint(20), Types.LONG())
    env.from_source(source, NO_WATERMARKS, "generated").add_sink(Marks(counted)).set_parallelism(1)
    client = env.execute_async("generated")

    def count() -> int:
        return os.path.getsize(counted) if os.path.exists(counted) else 0

    wait_until(lambda: count() >= 100, "five checkpoints")
    wait_until(lambda: stopped(client, False, tmp_path), "a savepoint of all tasks")
    assert count() % 10 == 0, "each of two subtasks emits ten between two checkpoints"


class SeenAtCheckpoints(MapFunction, CheckpointListener):
    """Records the latest number at the completion of each checkpoint."""

    def __init__(self, path: str) -> None:
        self.path, self.last = path, -1

    def map(self, value: int) -> int:
        self.last = value
        return value

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        with open(self.path, "a") as file:
            file.write(f"{self.last}\n")

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        return


def test_checkpoints_wait_for_the_end_of_a_backlog(cluster: Any, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    options = {
        "execution.checkpointing.interval": "20 ms",
        "execution.checkpointing.interval-during-backlog": "0",
        "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
    }
    env = environment(cluster, 1, **options)
    slowly = DataGeneratorSource(int, 100, RateLimiterStrategy.per_second(200))
    endless = DataGeneratorSource(lambda number: 1_000 + number, None, RateLimiterStrategy.per_second(200))
    source = HybridSource.builder(slowly).add_source(endless).build()
    numbers = env.from_source(source, NO_WATERMARKS, "numbers", Types.LONG())
    numbers.map(SeenAtCheckpoints(str(seen))).filter(lambda value: False).print()
    client = env.execute_async("backlog")
    wait_until(lambda: seen.exists() and seen.read_text().count("\n") > 1, "checkpoints are complete")
    client.cancel().result()

    assert int(seen.read_text().split()[0]) >= 99
