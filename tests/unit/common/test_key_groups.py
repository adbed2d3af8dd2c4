"""Key groups are divided among subtasks without gap or overlap, as in Flink."""

from __future__ import annotations

import pytest

from flinkpy.common.key_groups import (
    KeyGroupRange,
    default_max_parallelism,
    key_group_range,
    operator_index,
)


@pytest.mark.parametrize("max_parallelism", [1, 2, 7, 128, 129])
def test_each_key_group_belongs_to_the_subtask_that_gets_its_keys(max_parallelism):
    for parallelism in range(1, max_parallelism + 1):
        owners = [
            subtask
            for subtask in range(parallelism)
            for _ in range(len(key_group_range(max_parallelism, parallelism, subtask)))
        ]
        assert owners == [operator_index(max_parallelism, parallelism, group) for group in range(max_parallelism)]
        for group, owner in enumerate(owners):
            assert group in key_group_range(max_parallelism, parallelism, owner)


def test_a_range_includes_both_ends_and_may_be_empty():
    groups = KeyGroupRange(3, 5)
    assert [group for group in range(10) if group in groups] == [3, 4, 5]
    assert len(groups) == 3
    assert "3" not in groups
    assert len(KeyGroupRange(0, 0)) == 1
    for end in (4, 3, 0):
        assert len(KeyGroupRange(5, end)) == 0
        assert 4 not in KeyGroupRange(5, end) and 5 not in KeyGroupRange(5, end)


@pytest.mark.parametrize(
    ("parallelism", "expected"),
    [
        (0, 128), (1, 128), (2, 128), (85, 128), (86, 256), (170, 256), (171, 256), (172, 512), (342, 1024),
        (21845, 32768), (21846, 32768), (32768, 32768), (100_000, 32768),
    ],
)  # fmt: skip
def test_the_default_maximum_is_one_and_a_half_times_the_parallelism_as_a_power_of_two(parallelism, expected):
    assert default_max_parallelism(parallelism) == expected
