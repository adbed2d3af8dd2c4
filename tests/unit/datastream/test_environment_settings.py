"""Settings of a StreamExecutionEnvironment: getters return them, and its configuration contains them."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

from flinkpy.common import Configuration, Instant, Row, Types
from flinkpy.datastream import CheckpointingMode, RuntimeExecutionMode, SlotSharingGroup, StreamExecutionEnvironment


@pytest.fixture
def env() -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment(Configuration())


@pytest.fixture
def default_local_parallelism() -> Iterator[None]:
    """It belongs to the whole process."""
    before = StreamExecutionEnvironment._default_local_parallelism
    yield
    StreamExecutionEnvironment._default_local_parallelism = before


def test_numeric_settings_are_checked_and_kept(env: StreamExecutionEnvironment) -> None:
    assert env.get_max_parallelism() == -1
    assert env.set_max_parallelism(12).get_max_parallelism() == 12
    assert env.set_parallelism(10).get_parallelism() == 10
    assert env.set_buffer_timeout(12_000).get_buffer_timeout() == 12_000
    for wrong in (0, -2, 1 << 15 | 1):
        with pytest.raises(ValueError, match="must be from 1 to 32768"):
            env.set_max_parallelism(wrong)
    with pytest.raises(ValueError, match=r"must be -1 .*, 0 or more, not -2"):
        env.set_buffer_timeout(-2)


def test_default_local_parallelism_is_for_all_environments(
    env: StreamExecutionEnvironment, default_local_parallelism: None
) -> None:
    env.set_default_local_parallelism(3)

    assert env.get_default_local_parallelism() == 3
    assert StreamExecutionEnvironment(Configuration()).get_parallelism() == 3


def test_chaining_can_be_disabled(env: StreamExecutionEnvironment) -> None:
    assert env.is_chaining_enabled()
    assert env.is_chaining_of_operators_with_different_max_parallelism_enabled()
    assert not env.disable_operator_chaining().is_chaining_enabled()

    env.configure(
        Configuration().set_boolean("pipeline.operator-chaining.chain-operators-with-different-max-parallelism", False)
    )
    assert not env.is_chaining_of_operators_with_different_max_parallelism_enabled()


def test_checkpointing_can_be_enabled_with_interval_and_mode(env: StreamExecutionEnvironment) -> None:
    assert env.get_checkpoint_interval() == -1
    assert env.enable_checkpointing(30_000).get_checkpoint_interval() == 30_000
    env.enable_checkpointing(30_000, CheckpointingMode.AT_LEAST_ONCE)
    assert env.get_checkpointing_mode() is CheckpointingMode.AT_LEAST_ONCE
    assert env.get_checkpointing_consistency_mode() is CheckpointingMode.AT_LEAST_ONCE
    assert not env.is_unaligned_checkpoints_enabled()
    assert not env.is_force_unaligned_checkpoints()
    assert env.is_changelog_state_backend_enabled() is None
    assert env.get_default_savepoint_directory() is None
    assert env.set_default_savepoint_directory("s3://a/b").get_default_savepoint_directory() == "s3://a/b"


def test_runtime_mode_and_slot_sharing_groups_can_be_set(env: StreamExecutionEnvironment) -> None:
    for mode in RuntimeExecutionMode:
        env.set_runtime_mode(mode)
        assert env.get_configuration().get_string("execution.runtime-mode", "") == mode.name

    group = SlotSharingGroup.builder("mine").set_cpu_cores(1).set_task_heap_memory_mb(100).build()
    env.register_slot_sharing_group(group)
    env.set_runtime_mode(RuntimeExecutionMode.STREAMING)
    env.from_sequence(1, 2).slot_sharing_group("mine").map(str).slot_sharing_group(group).print()
    assert {vertex.slot_sharing_group for vertex in env.generate_job_graph().vertices} == {"mine"}


def test_settings_of_a_configuration_are_applied(env: StreamExecutionEnvironment) -> None:
    env.configure(
        Configuration.from_dict(
            {
                "parallelism.default": "2",
                "execution.buffer-timeout.interval": "5 s",
                "pipeline.operator-chaining.enabled": "false",
                "execution.checkpointing.interval": "12000",
                "execution.checkpointing.mode": "AT_LEAST_ONCE",
                "pipeline.name": "configured",
            }
        )
    )
    env.from_sequence(1, 2).print()

    assert env.get_parallelism() == 2
    assert env.get_buffer_timeout() == 5000
    assert not env.is_chaining_enabled()
    assert env.get_checkpoint_interval() == 12_000
    assert env.get_checkpointing_mode() is CheckpointingMode.AT_LEAST_ONCE
    assert env.generate_job_graph().name == "configured"


@pytest.mark.parametrize(
    ("elements", "type_info"),
    [
        ([(1, "a", 1.5), (None, None, None)], Types.TUPLE([Types.LONG(), Types.STRING(), Types.DOUBLE()])),
        ([Row(a=1, b=Decimal("1.5"))], Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.BIG_DEC()])),
        (
            [(datetime.date(2024, 2, 29), datetime.time(1, 2, 3), datetime.datetime(2024, 2, 29, 1, 2, 3, 4))],
            Types.TUPLE([Types.SQL_DATE(), Types.SQL_TIME(), Types.SQL_TIMESTAMP()]),
        ),
        (
            [([1, 2], {"k": [1.5]}, b"\0")],
            Types.TUPLE(
                [
                    Types.BASIC_ARRAY(Types.INT()),
                    Types.MAP(Types.STRING(), Types.LIST(Types.DOUBLE())),
                    Types.PRIMITIVE_ARRAY(Types.BYTE()),
                ]
            ),
        ),
        (
            [(Instant(1, 2000), 10**30, "x", True)],
            Types.TUPLE(
                [
                    Types.INSTANT(),
                    Types.BIG_INT(),
                    Types.CHAR(),
                    Types.BOOLEAN(),
                ]
            ),
        ),
        ([{"any": object}, None, 1], None),
    ],
)
def test_collections_of_every_type_are_accepted(
    env: StreamExecutionEnvironment, elements: list[Any], type_info: Any
) -> None:
    stream = env.from_collection(elements, type_info)
    stream.print()

    assert stream.get_type() == (type_info or Types.PICKLED_BYTE_ARRAY())
    assert env.generate_job_graph().vertices
