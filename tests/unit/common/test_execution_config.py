"""ExecutionConfig: defaults, setters and equality, as in PyFlink 2.3.0."""

from __future__ import annotations

from typing import Any

import pytest

from flinkpy.common import Configuration, ExecutionConfig
from flinkpy.datastream import StreamExecutionEnvironment


@pytest.fixture
def config() -> ExecutionConfig:
    return ExecutionConfig(Configuration())


def test_defaults(config: ExecutionConfig) -> None:
    assert (ExecutionConfig.PARALLELISM_DEFAULT, ExecutionConfig.PARALLELISM_UNKNOWN) == (-1, -2)
    assert config.get_auto_watermark_interval() == 200
    assert config.get_latency_tracking_interval() == 0
    assert config.get_max_parallelism() == -1
    assert config.get_task_cancellation_interval() == 30_000
    assert config.get_task_cancellation_timeout() == 180_000
    assert config.has_auto_generated_uids_enabled()
    assert config.is_closure_cleaner_enabled()
    assert not config.is_object_reuse_enabled()
    assert not config.is_use_snapshot_compression()
    assert config.get_global_job_parameters() == {}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("auto_watermark_interval", 1000),
        ("latency_tracking_interval", 500),
        ("parallelism", 4),
        ("max_parallelism", 12),
        ("task_cancellation_interval", 1000),
        ("task_cancellation_timeout", 0),
        ("global_job_parameters", {"hello": "world"}),
    ],
)
def test_getters_return_the_values_that_were_set(config: ExecutionConfig, name: str, value: Any) -> None:
    assert getattr(config, f"set_{name}")(value) is config
    assert getattr(config, f"get_{name}")() == value


def test_flags_go_both_ways(config: ExecutionConfig) -> None:
    assert not config.disable_auto_generated_uids().has_auto_generated_uids_enabled()
    assert config.enable_auto_generated_uids().has_auto_generated_uids_enabled()
    assert config.disable_generic_types().has_generic_types_disabled()
    assert not config.enable_generic_types().has_generic_types_disabled()
    assert config.set_use_snapshot_compression(True).is_use_snapshot_compression()


@pytest.mark.parametrize("value", [-1, "5", True, 1.5])
def test_a_time_that_is_not_a_number_of_milliseconds_is_refused(config: ExecutionConfig, value: Any) -> None:
    with pytest.raises(ValueError, match="0 or more"):
        config.set_auto_watermark_interval(value)


def test_configs_are_equal_by_what_is_set() -> None:
    one, two = ExecutionConfig(Configuration()), ExecutionConfig(Configuration())
    assert one == two
    assert hash(one) == hash(two)

    one.set_parallelism(12)
    assert one != two

    two.set_parallelism(12)
    assert one == two
    assert hash(one) == hash(two)


def test_environment_is_made_with_a_configuration() -> None:
    configuration = Configuration()
    configuration.set_integer("parallelism.default", 10)
    configuration.set_string("pipeline.max-parallelism", "20")
    configuration.set_string("pipeline.auto-watermark-interval", "2 s")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    config = env.get_config()

    assert (config.get_parallelism(), env.get_max_parallelism()) == (10, 20)
    assert config.get_auto_watermark_interval() == 2000

    env.configure(Configuration().set_string("pipeline.auto-watermark-interval", "3 s"))
    assert config.get_auto_watermark_interval() == 3000
