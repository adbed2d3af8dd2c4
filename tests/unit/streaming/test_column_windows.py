from __future__ import annotations

import datetime as dt
import decimal
import random
import statistics

import numpy as np
import pyarrow as pa
import pytest
from column_windows import END, MIN, A, Engine, Reference, SessionReference, window_spec
from streaming_fakes import OperatorHarness

from flinkpy.common.errors import StateMigrationError, TypeMismatchError, UnsupportedOperationError
from flinkpy.common.typeinfo import Types
from flinkpy.records.batch import Batch

BACKENDS = ["hashmap", "rocksdb"]
TUMBLING = {"size_ms": 10}
SLIDING = {"size_ms": 10, "slide_ms": 4}
SESSIONS = {"gap_ms": 5}


def scattered(seed: int, length: int = 400, keys: int = 30):
    """Records whose times wander upwards with some disorder."""
    chance = random.Random(seed)
    return [
        (f"k{chance.randrange(keys)}", chance.randrange(100), i // 2 + chance.randrange(-12, 12)) for i in range(length)
    ]


def reference_of(options, lateness=0):
    if "gap_ms" in options:
        return SessionReference(options["gap_ms"], lateness)
    return Reference(options["size_ms"], options.get("slide_ms", options["size_ms"]), 0, lateness)


def rows_in_order(rows):
    return sorted(rows, key=repr)


def test_a_result_has_the_key_the_window_the_aggregates_and_the_last_ms_as_timestamp():
    harness = OperatorHarness(window_spec(**TUMBLING))
    harness.process(pa.RecordBatch.from_pydict({"k": ["a", "b", "a"], "v": [1, 2, 3]}), [3, 9, 12])

    harness.watermark(8)
    assert harness.output.rows == []
    harness.watermark(9)

    assert harness.output.rows == [("a", 0, 10, 1, 1, 1), ("b", 0, 10, 1, 2, 2)]
    assert harness.output.timestamps == [9, 9]
    assert harness.output.items[-2].values.schema.names == ["k", "window_start", "window_end", "n", "total", "top"]
    assert [element.timestamp for element in harness.output.elements] == [8, 9]
    # Results come before the watermark that made them.
    assert isinstance(harness.output.items[-2], Batch)


def test_windows_before_the_epoch_are_aligned_too():
    engine = Engine(window_spec(size_ms=10, slide_ms=5, offset_ms=1))
    engine.add([("a", 1, -1), ("a", 2, -10)])
    engine.watermark(END)

    assert [row[:3] for row in engine.take()] == [("a", -19, -9), ("a", -14, -4), ("a", -9, 1), ("a", -4, 6)]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("options", [TUMBLING, SLIDING, SESSIONS], ids=["tumbling", "sliding", "sessions"])
@pytest.mark.parametrize("lateness", [0, 4])
def test_snapshots_and_rescaling_do_not_change_results(backend, options, lateness):
    records = scattered(1)
    reference = reference_of(options, lateness)
    engine = Engine(window_spec(**options, allowed_lateness_ms=lateness), backend=backend, parallelism=2)
    got, dropped = [], 0
    for step, start in enumerate(range(0, len(records), 40)):
        part = records[start : start + 40]
        for record in part:
            reference.add(*record)
        engine.add(part)
        watermark = start // 2 + 25
        reference.advance(watermark)
        engine.watermark(watermark)
        got += engine.take()
        if step % 2:
            dropped += engine.dropped()
            engine = engine.restart(parallelism=1 + step % 3)
    reference.advance(END)
    engine.watermark(END)
    got += engine.take()

    assert rows_in_order(got) == rows_in_order(reference.emitted)
    assert dropped + engine.dropped() == len(reference.late) > 0
    assert all(harness.operator._table.size == 0 for harness in engine.subtasks)


def test_a_snapshot_of_one_backend_can_be_restored_by_the_other():
    for options in (SLIDING, SESSIONS):
        records = scattered(2)
        reference = reference_of(options)
        engine = Engine(window_spec(**options), backend="hashmap")
        got = []
        for number, backend in enumerate(["rocksdb", "hashmap", "rocksdb"]):
            part = records[number * 100 : number * 100 + 100]
            for record in part:
                reference.add(*record)
            engine.add(part)
            reference.advance(number * 50)
            engine.watermark(number * 50)
            got += engine.take()
            engine = engine.restart(backend=backend)
        reference.advance(END)
        engine.watermark(END)
        assert rows_in_order(got + engine.take()) == rows_in_order(reference.emitted)


def test_a_fired_window_does_not_fire_again_on_a_subtask_that_was_behind():
    engine = Engine(window_spec(**SLIDING), parallelism=2)
    records = scattered(3, 60)
    engine.add(records)
    engine.watermark(20, subtask=0)
    first = engine.take()
    engine = engine.restart(parallelism=1)
    engine.watermark(END)
    reference = reference_of(SLIDING)
    for record in records:
        reference.add(*record)
    reference.advance(END)

    assert first
    assert rows_in_order(first + engine.take()) == rows_in_order(reference.emitted)


def test_late_records_stay_late_after_a_failure():
    engine = Engine(window_spec(**TUMBLING))
    engine.add([("a", 1, 5), ("a", 1, 15)])
    engine.watermark(12)
    assert engine.take() == [("a", 0, 10, 1, 1, 1)]

    engine = engine.restart()
    engine.add([("a", 7, 6), ("a", 7, 16)])
    engine.watermark(30)

    assert engine.take() == [("a", 10, 20, 2, 8, 7)]
    assert engine.dropped() == 1


def test_a_program_resumes_from_a_savepoint_taken_at_the_end_of_event_time():
    engine = Engine(window_spec(**TUMBLING))
    engine.add([("a", 1, 5)])
    engine.watermark(END)
    engine.take()

    engine = engine.restart()
    engine.add([("a", 2, 6)])
    engine.watermark(END)

    assert engine.take() == [("a", 0, 10, 1, 2, 2)]


def test_each_late_record_within_the_lateness_fires_its_windows_again():
    engine = Engine(window_spec(**TUMBLING, allowed_lateness_ms=10))
    engine.add([("a", 1, 1), ("b", 1, 1)])
    engine.watermark(12)
    engine.take()
    engine.add([("a", 2, 3), ("b", 5, 4), ("a", 4, 5), ("a", 9, 13)])

    assert engine.take() == [("a", 0, 10, 2, 3, 2), ("b", 0, 10, 2, 6, 5), ("a", 0, 10, 3, 7, 4)]
    engine.watermark(19)
    assert engine.take() == [("a", 10, 20, 1, 9, 9)]
    engine.add([("a", 8, 3)])
    assert (engine.take(), engine.dropped()) == ([], 1)


def test_a_late_record_extends_only_a_session_that_is_kept():
    engine = Engine(window_spec(**SESSIONS, late_output_tag="late"), side_tags=("late",))
    engine.add([("a", 1, 10), ("a", 2, 14)])
    engine.watermark(16)
    # Their own sessions would be over; the first reaches the open one, then the second reaches the first.
    engine.add([("a", 3, 6), ("a", 4, 2), ("a", 5, -9), ("b", 6, 6)])
    engine.watermark(END)

    assert engine.take() == [("a", 2, 19, 4, 10, 4)]
    side = engine.subtasks[0].side["late"]
    assert (side.rows, side.timestamps) == ([("a", 5), ("b", 6)], [-9, 6])


def test_late_records_are_python_objects_if_their_side_output_is_untyped():
    harness = OperatorHarness(
        window_spec(
            (0,),
            **TUMBLING,
            aggregates=(A("n", "COUNT"),),
            late_output_tag="t",
            late_output_is_typed=False,
            input_types=(Types.TUPLE([Types.STRING(), Types.LONG()]),),
        ),
        side_tags=("t",),
    )
    harness.watermark(50)
    harness.process([("a", 1)], [7])

    assert harness.side["t"].rows == [("a", 1)]
    assert not harness.side["t"].items[-1].is_columnar


def test_late_records_of_an_unread_side_output_are_not_counted_as_dropped():
    engine = Engine(window_spec(**TUMBLING, late_output_tag="late"))
    engine.watermark(50)
    engine.add([("a", 1, 3)])

    assert engine.dropped() == 0


def test_windows_accept_keys_and_values_of_any_type():
    decimals = [decimal.Decimal("1.10"), decimal.Decimal("2.20"), None, decimal.Decimal("-3.30")]
    days = [dt.date(2024, 1, 1), dt.date(2024, 1, 2), dt.date(2024, 1, 1), None]
    columns = pa.RecordBatch.from_pydict(
        {
            "d": pa.array([decimals[0], decimals[1], decimals[0], None]),
            "day": pa.array(days),
            "s": ["b", "a", "c", None],
            "x": pa.array(decimals, pa.decimal128(9, 2)),
            "f": [1.5, float("nan"), 2.5, None],
        }
    )
    wanted = [("MIN", "s"), ("MAX", "x"), ("SUM", "x"), ("MEAN", "f"), ("COUNT", "f")]
    aggregates = tuple(A(f"{function}_{column}", function, column) for function, column in wanted)
    for options in ({"size_ms": 10, "slide_ms": 5}, {"gap_ms": 10}):
        for backend in BACKENDS:
            spec = window_spec(("d", "day"), **options, aggregates=aggregates)
            engine = Engine(spec, backend=backend)
            engine.subtasks[0].process(columns, [5, 6, 8, 9])
            engine = engine.restart()
            engine.watermark(END)
            rows = {(row[:2], row[4:]) for row in engine.take()}
            assert ((decimals[0], days[0]), ("b", decimals[0], decimals[0], 2.0, 2)) in rows
            assert ((None, None), (None, decimals[3], decimals[3], None, 0)) in rows


def test_a_window_without_keys_has_one_result():
    for options in (TUMBLING, SESSIONS):
        engine = Engine(window_spec((), **options))
        engine.add([("a", 1, 1), ("b", 5, 4), ("c", 2, 33)])
        engine = engine.restart()
        engine.watermark(END)
        rows = [row[-3:] for row in engine.take()]
        assert rows == [(2, 6, 5), (1, 2, 2)]


@pytest.mark.parametrize("options", [TUMBLING, SLIDING, SESSIONS], ids=["tumbling", "sliding", "sessions"])
def test_processing_time_windows_fire_by_the_clock(options):
    spec = window_spec(**options, is_event_time=False)
    harness = OperatorHarness(spec)
    columns = pa.RecordBatch.from_pydict({"k": ["a"], "v": [1]})
    harness.process(columns)
    harness.advance(1)
    harness.process(columns)
    harness.watermark(END)
    assert harness.output.rows == []
    harness.advance(20)

    starts = {"slide_ms": [992, 996, 1000], "gap_ms": [1000]}.get(next(iter(reversed(options))), [1000])
    assert [row[1] for row in harness.output.rows] == starts
    assert [row[3] for row in harness.output.rows] == [2] * len(starts)
    harness.advance(100)
    assert len(harness.output.rows) == len(starts)


def test_processing_time_windows_that_ended_during_a_downtime_fire_after_the_restore():
    engine = Engine(window_spec(**TUMBLING, is_event_time=False))
    engine.subtasks[0].process(pa.RecordBatch.from_pydict({"k": ["a"], "v": [1]}))
    engine = engine.restart()
    harness = engine.subtasks[0]
    harness.advance(10)

    assert harness.output.rows == [("a", 1000, 1010, 1, 1, 1)]


def test_memory_is_proportional_to_the_open_windows():
    for options in ({"size_ms": 100}, {"size_ms": 100, "slide_ms": 10}, {"gap_ms": 20}):
        engine = Engine(window_spec(**options))
        table = None
        for step in range(60):
            times = np.arange(step * 1000, step * 1000 + 1000)
            # Keys that never come again.
            keys = [f"{step}-{i}" for i in range(1000)]
            columns = pa.RecordBatch.from_pydict({"k": keys, "v": times})
            engine.subtasks[0].operator.process_batch(Batch(columns, times))
            engine.watermark(step * 1000 + 900)
            engine.take()
            table = engine.subtasks[0].operator._table
        assert table.size < 1_000
        assert table.num_keys < 12_000
        assert len(table._key_of_slot) < 40_000


def test_a_dropped_window_is_deleted_from_the_database():
    for options in (TUMBLING, SESSIONS):
        engine = Engine(window_spec(**options), backend="rocksdb")
        engine.add([("a", 1, 1), ("b", 1, 40)])
        engine = engine.restart()
        engine.watermark(20)
        engine = engine.restart()
        assert engine.subtasks[0].operator.backend.num_entries() == 1


def test_sessions_may_be_far_apart_and_span_64_bits():
    far = 1 << 60
    engine = Engine(window_spec(gap_ms=10))
    engine.add([("a", 1, -far), ("b", 2, far), ("a", 3, far), ("a", 4, far + 5), ("a", 5, -far + 30)])
    engine.watermark(END)

    rows = rows_in_order(row[:4] for row in engine.take())
    assert rows == rows_in_order(
        [("a", -far, -far + 10, 1), ("b", far, far + 10, 1), ("a", far, far + 15, 2), ("a", -far + 30, -far + 40, 1)]
    )


def test_records_in_gaps_between_windows_belong_to_none():
    engine = Engine(window_spec(size_ms=4, slide_ms=10))
    engine.add([("a", 1, 3), ("a", 2, 4), ("a", 3, 9), ("a", 4, 10)])
    engine.watermark(7)
    engine.add([("a", 5, 5), ("a", 6, 8)])
    engine.watermark(END)

    assert [row[1:4] for row in engine.take()] == [(0, 4, 1), (10, 14, 1)]
    # The one at 8 is in no window but is not late.
    assert engine.dropped() == 1


def test_unsupported_windows_are_refused_with_the_operators_name():
    columns = pa.RecordBatch.from_pydict({"k": ["a"], "v": [1]})
    with pytest.raises(UnsupportedOperationError, match=r"WindowAggregateSpec: a record has no timestamp"):
        OperatorHarness(window_spec(**TUMBLING)).process(columns)
    with pytest.raises(UnsupportedOperationError, match="a record has no timestamp"):
        OperatorHarness(window_spec(**TUMBLING)).process(columns, [MIN])
    with pytest.raises(TypeMismatchError, match="no column 'z'"):
        OperatorHarness(window_spec(("z",), **TUMBLING)).process(columns, [1])
    harness = OperatorHarness(window_spec(**TUMBLING))
    with pytest.raises(UnsupportedOperationError, match="accepts only inserts"):
        harness.operator.process_batch(Batch(columns, np.array([1]), np.array([1], np.int8)))


def test_state_of_another_kind_of_window_is_not_restored():
    engine = Engine(window_spec(**TUMBLING))
    engine.add([("a", 1, 1)])
    engine.spec = window_spec(**SESSIONS)
    with pytest.raises(StateMigrationError, match="1 window times and now have 2"):
        engine.restart()


def test_a_restored_program_may_have_another_column_order():
    types = {"k": Types.STRING(), "v": Types.LONG(), "w": Types.LONG()}

    def spec(*names):
        return window_spec(**TUMBLING, input_types=(Types.ROW_NAMED(list(names), [types[name] for name in names]),))

    engine = Engine(spec("k", "v", "w"))
    engine.subtasks[0].process(pa.RecordBatch.from_pydict({"k": ["a"], "v": [1], "w": [100]}), [1])
    engine.spec = spec("w", "k", "v")
    engine = engine.restart()
    engine.subtasks[0].process(pa.RecordBatch.from_pydict({"w": [100], "k": ["a"], "v": [5]}), [2])
    engine.watermark(END)

    assert engine.take() == [("a", 0, 10, 2, 6, 5)]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("options", [TUMBLING, SLIDING, SESSIONS], ids=["tumbling", "sliding", "sessions"])
def test_first_and_last_follow_the_order_of_arrival_after_a_restore(backend, options):
    schema = pa.schema([("k", pa.string()), ("n", pa.int32()), ("s", pa.string()), ("b", pa.bool_())])
    rows = [
        ("a", None, "x", True),
        ("b", 7, None, None),
        ("a", 3, "z", None),
        ("a", 4, "y", False),
        ("a", None, None, None),
    ]
    times = [9, 5, 8, 5, 7]
    aggregates = tuple(
        A(f"{function}_{column}", function, column) for column in "nsb" for function in ("FIRST", "LAST")
    )
    for cut in range(1, 5):
        engine = Engine(window_spec(**options, aggregates=aggregates), backend=backend)
        for part in (slice(0, cut), slice(cut, 5)):
            columns = pa.RecordBatch.from_pydict(dict(zip(schema.names, zip(*rows[part]))), schema=schema)
            engine.subtasks[0].process(columns, times[part])
            engine = engine.restart()
        engine.watermark(END)
        got = {(row[0], row[3:]) for row in engine.take()}
        assert ("a", (3, 4, "x", "y", True, False)) in got
        assert ("b", (7, 7, None, None, None, None)) in got


def test_many_results_are_emitted_in_bounded_batches():
    for options in (TUMBLING, SLIDING, SESSIONS):
        engine = Engine(window_spec(**options))
        columns = pa.RecordBatch.from_pydict({"k": [str(i) for i in range(70_000)], "v": np.ones(70_000, np.int64)})
        engine.subtasks[0].operator.process_batch(Batch(columns, np.full(70_000, 9)))
        engine.watermark(END)
        batches = [item.num_rows for item in engine.subtasks[0].output.items if isinstance(item, Batch)]
        assert max(batches) <= 65_536
        assert sum(batches) % 70_000 == 0


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("shape", [{"size_ms": 10}, {"size_ms": 40, "slide_ms": 5}, {"gap_ms": 6}], ids=str)
def test_distinct_and_statistics_aggregates_survive_a_restore_at_any_parallelism(backend, shape):
    aggregates = (A("n", "COUNT_DISTINCT", "v"), A("spread", "VAR_SAMP", "v"), A("deviation", "STDDEV_POP", "v"))
    records = [("ab"[i % 3 % 2], (i * 7) % 5 if i % 4 else None, (i * 13) % 90 - 20) for i in range(120)]
    engine = Engine(window_spec(aggregates=aggregates, **shape), backend=backend)
    engine.add(records[:50])
    engine = engine.restart(parallelism=2)
    engine.add(records[50:90])
    engine.watermark(-10)
    rows = engine.take()
    late = [each for each in records[90:] if each[2] > 0]
    engine = engine.restart(parallelism=1, backend=BACKENDS[1 - BACKENDS.index(backend)])
    engine.add(late)
    engine.watermark(END)
    rows += engine.take()

    windows = windows_of([*records[:90], *late], **shape)
    assert sorted(row[:4] for row in rows) == sorted((*window, len(set(values))) for window, values in windows.items())
    for *window, _, variance, deviation in rows:
        values = windows[tuple(window)]
        assert deviation == (pytest.approx(statistics.pstdev(values), abs=1e-9) if values else None)
        assert variance == (pytest.approx(statistics.variance(values), abs=1e-9) if len(values) > 1 else None)


def windows_of(records, size_ms=0, slide_ms=0, gap_ms=None):
    """(key, start, end) -> the values of all windows, none of which is late."""
    windows = {}
    for key, value, time in sorted(records, key=lambda each: each[2]):
        if gap_ms is None:
            slide = slide_ms or size_ms
            last = time // slide * slide
            spans = [(start, start + size_ms) for start in range(last, time - size_ms, -slide)]
        else:
            known = [(k, s, e) for k, s, e in windows if k == key and e >= time]
            spans = [(time, time + gap_ms)]
            if known:
                (_, start, _) = known[0]
                windows[key, start, time + gap_ms] = windows.pop(known[0])
                spans = [(start, time + gap_ms)]
        for start, end in spans:
            windows.setdefault((key, start, end), []).extend([] if value is None else [value])
    return windows
