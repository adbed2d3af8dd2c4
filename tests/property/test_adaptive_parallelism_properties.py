"""For any inputs, everything is read exactly once, by subtasks with about equal loads."""

from __future__ import annotations

from itertools import combinations, pairwise

from hypothesis import given
from hypothesis import strategies as st

from flinkpy.jobmaster.executiongraph.edge_manager import balanced_ranges, even_ranges
from flinkpy.jobmaster.scheduler.adaptive_parallelism import (
    BlockingInput,
    ParallelismBounds,
    decide_parallelism,
    slices_of,
)

LOADS = st.lists(st.integers(0, 50), min_size=1, max_size=9)


def heaviest(loads: list[int], cuts: tuple[int, ...]) -> int:
    edges = (0, *cuts, len(loads))
    return max(sum(loads[a:b]) for a, b in pairwise(edges))


@given(LOADS, st.integers(1, 9))
def test_ranges_contain_everything_once_in_order_with_the_smallest_maximum(loads: list[int], most: int) -> None:
    ranges = balanced_ranges(loads, most)
    assert [index for one in ranges for index in one] == list(range(len(loads)))
    assert len(ranges) <= most
    best = min(
        heaviest(loads, cuts)
        for count in range(min(most, len(loads)))
        for cuts in combinations(range(1, len(loads)), count)
    )
    assert max(sum(loads[i] for i in one) for one in ranges) == best


@given(LOADS, st.integers(1, 9), st.integers(1, 9))
def test_there_are_at_least_as_many_ranges_as_asked_for_where_there_are_items(
    loads: list[int], least: int, more: int
) -> None:
    ranges = balanced_ranges(loads, least + more, least)
    assert [index for one in ranges for index in one] == list(range(len(loads)))
    assert len(ranges) >= min(least, len(loads))


@given(st.integers(1, 40), st.integers(1, 40))
def test_even_ranges_differ_by_one_item_at_most(num_items: int, num_ranges: int) -> None:
    ranges = even_ranges(num_items, num_ranges)
    assert [index for one in ranges for index in one] == list(range(num_items))
    assert max(map(len, ranges)) - min(map(len, ranges)) <= 1


@st.composite
def inputs(draw: st.DrawFn) -> list[BlockingInput]:
    common = draw(st.integers(1, 6))
    made = []
    for kind in draw(st.lists(st.sampled_from(["keyed", "pointwise", "broadcast"]), min_size=1, max_size=3)):
        width = {"keyed": common, "pointwise": draw(st.integers(1, 4)), "broadcast": 1}[kind]
        rows = st.tuples(*[st.integers(0, 30)] * width)
        partitions = tuple(draw(st.lists(rows, min_size=1, max_size=5)))
        made.append(BlockingInput(partitions, is_broadcast=kind == "broadcast", is_pointwise=kind == "pointwise"))
    return made


BOUNDS = st.builds(ParallelismBounds, st.integers(1, 4), st.integers(1, 8), st.integers(1, 60))


def assert_read_once(made: list[BlockingInput], parallelism: int, slices: object) -> None:
    for one, per_subtask in zip(made, slices, strict=True):  # type: ignore[call-overload]
        assert len(per_subtask) == parallelism
        read = [
            (partition, subpartition)
            for own in per_subtask
            for piece in own
            for partition in piece.partitions
            for subpartition in piece.subpartitions
        ]
        everything = [(p, s) for p in range(len(one.partition_bytes)) for s in range(one.num_subpartitions)]
        expected = everything * parallelism if one.is_broadcast else everything
        assert sorted(read) == sorted(expected)


@given(inputs(), BOUNDS)
def test_every_subpartition_of_every_input_is_read_exactly_once(
    made: list[BlockingInput], bounds: ParallelismBounds
) -> None:
    decision = decide_parallelism(made, bounds)
    assert 1 <= decision.parallelism <= bounds.max_parallelism
    assert_read_once(made, decision.parallelism, decision.slices)


@given(inputs(), st.integers(1, 8))
def test_every_subpartition_is_read_once_with_a_fixed_parallelism(made: list[BlockingInput], parallelism: int) -> None:
    assert_read_once(made, parallelism, slices_of(made, parallelism))


@given(inputs(), BOUNDS)
def test_all_keyed_inputs_are_divided_at_the_same_subpartitions(
    made: list[BlockingInput], bounds: ParallelismBounds
) -> None:
    decision = decide_parallelism(made, bounds)
    keyed = [
        [tuple(piece.subpartitions for piece in own) for own in per_subtask]
        for one, per_subtask in zip(made, decision.slices, strict=True)
        if not one.is_broadcast and not one.is_pointwise
    ]
    assert all(other == keyed[0] for other in keyed[1:])


@given(inputs(), BOUNDS)
def test_a_job_with_less_than_one_task_of_data_runs_with_the_least_parallelism(
    made: list[BlockingInput], bounds: ParallelismBounds
) -> None:
    generous = ParallelismBounds(1, bounds.max_parallelism, 10**9)
    assert decide_parallelism(made, generous).parallelism == 1
