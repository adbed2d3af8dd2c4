"""Windows over columns equal those of a reference that processes one record at a time, for any batches."""

from __future__ import annotations

import pytest
from column_windows import END, Engine, Reference, SessionReference, window_spec
from hypothesis import given, settings
from hypothesis import strategies as st

from flinkpy.state import pane_table, window_table
from flinkpy.streaming.operators.windowing_columns import pane_window_operator

records = st.tuples(st.sampled_from(["a", "b", "c", None]), st.none() | st.integers(-9, 9), st.integers(-60, 60))
#: Batches of records with watermarks in between.
inputs = st.lists(st.lists(records, max_size=12) | st.integers(-70, 70), max_size=12)
latenesses = st.sampled_from([0, 0, 7, 30])
#: The shape of windows: size, slide and offset, or the gap of sessions.
shapes = st.tuples(st.integers(1, 24), st.integers(1, 24), st.integers(-5, 5)) | st.tuples(st.integers(1, 15))


def spec_of(shape, **options):
    if len(shape) == 1:
        return window_spec(gap_ms=shape[0], **options)
    return window_spec(size_ms=shape[0], slide_ms=shape[1], offset_ms=shape[2], **options)


def run_reference(shape, lateness, items):
    """Returns the output after each item."""
    reference = (SessionReference if len(shape) == 1 else Reference)(*shape, lateness=lateness)
    steps = []
    for item in items:
        if isinstance(item, int):
            reference.advance(item)
        else:
            for each in item:
                reference.add(*each)
        steps.append((isinstance(item, int), reference.emitted.copy()))
        reference.emitted.clear()
    return reference, steps


def check(steps, got):
    for (is_watermark, expected), rows in zip(steps, got, strict=True):
        if is_watermark:
            # Windows fire in order of their ends; the keys of a window have no order.
            assert [row[2] for row in rows] == [row[2] for row in expected]
            assert sorted(rows, key=repr) == sorted(expected, key=repr)
        else:
            assert rows == expected


@given(shapes, latenesses, inputs, st.lists(st.integers(1, 5), min_size=1, max_size=4))
@settings(max_examples=300, deadline=None)
def test_windows_equal_those_of_one_record_at_a_time_for_any_batches(shape, lateness, items, cuts):
    items = [*items, END]
    reference, steps = run_reference(shape, lateness, items)

    engine = Engine(
        spec_of(shape, allowed_lateness_ms=lateness, late_output_tag="late"),
        side_tags=("late",),
    )
    got, watermark = [], None
    for item in items:
        if isinstance(item, int):
            if watermark is None or item > watermark:
                watermark = item
                engine.watermark(item)
        else:
            rest, turn = list(item), 0
            while rest:
                length = cuts[turn % len(cuts)]
                engine.add(rest[:length])
                rest, turn = rest[length:], turn + 1
        got.append(engine.take())

    check(steps, got)
    assert [(*row, time) for row, time in zip(late_rows(engine), late_times(engine))] == reference.late


def late_rows(engine):
    return engine.subtasks[0].side["late"].rows


def late_times(engine):
    return engine.subtasks[0].side["late"].timestamps


@given(
    shapes,
    latenesses,
    inputs,
    st.sets(st.integers(0, 12), max_size=3),
    st.lists(st.integers(1, 3), min_size=3, max_size=3),
)
@settings(max_examples=120, deadline=None)
def test_a_restore_at_any_parallelism_changes_nothing(shape, lateness, items, stops, parallelisms):
    items = [*items, END]
    reference, steps = run_reference(shape, lateness, items)

    engine = Engine(spec_of(shape, allowed_lateness_ms=lateness))
    got, watermark, dropped = [], None, 0
    changes = iter(parallelisms)
    for position, item in enumerate(items):
        if isinstance(item, int):
            if watermark is None or item > watermark:
                watermark = item
                engine.watermark(item)
        else:
            engine.add(item)
        got.append(engine.take())
        if position in stops:
            dropped += engine.dropped()
            engine = engine.restart(next(changes))

    for (_, expected), rows in zip(steps, got, strict=True):
        assert sorted(rows, key=repr) == sorted(expected, key=repr)
    assert dropped + engine.dropped() == len(reference.late)


@given(
    st.tuples(st.integers(1, 60), st.integers(1, 4), st.integers(-5, 5)),
    latenesses,
    inputs,
    st.sets(st.integers(0, 12), max_size=1),
)
@settings(max_examples=200, deadline=None)
def test_windows_in_blocks_of_panes_are_the_same(shape, lateness, items, stops):
    items = [*items, END]
    _, steps = run_reference(shape, lateness, items)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pane_window_operator, "_MIN_PANES_FOR_BLOCKS", 1)
        patch.setattr(pane_window_operator, "_MIN_ENTRIES_FOR_BLOCKS", 0)
        engine = Engine(spec_of(shape, allowed_lateness_ms=lateness))
        got, watermark = [], None
        for position, item in enumerate(items):
            if not isinstance(item, int):
                engine.add(item)
            elif watermark is None or item > watermark:
                watermark = item
                engine.watermark(item)
            got.append(engine.take())
            if position in stops:
                engine = engine.restart()

    check(steps, got)


@given(
    st.tuples(st.integers(1, 24), st.integers(1, 24), st.integers(-5, 5)),
    inputs,
    st.sets(st.integers(0, 12), max_size=1),
    st.integers(0, 3),
)
@settings(max_examples=100, deadline=None)
def test_windows_with_hashed_entries_are_the_same(shape, items, stops, rows):
    """`rows`: the number of panes that have cells. With more panes, entries are hashed."""
    items = [*items, END]
    _, steps = run_reference(shape, 0, items)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pane_table, "_MIN_CELLS", rows * 1024)
        patch.setattr(pane_table, "_CELLS_PER_ENTRY", 0)
        patch.setattr(window_table, "_MIN_DEAD", 1)
        engine = Engine(spec_of(shape))
        got, watermark = [], None
        for position, item in enumerate(items):
            if not isinstance(item, int):
                engine.add(item)
            elif watermark is None or item > watermark:
                watermark = item
                engine.watermark(item)
            got.append(engine.take())
            if position in stops:
                engine = engine.restart()

    check(steps, got)
