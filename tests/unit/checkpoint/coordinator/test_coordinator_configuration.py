from __future__ import annotations

import pytest

from flinkpy.checkpoint.coordinator.coordinator_configuration import coordinator_options
from flinkpy.common.configuration import Configuration
from flinkpy.common.errors import ConfigurationError


def options_of(**values):
    configuration = Configuration()
    for key, value in values.items():
        configuration.set_string(f"execution.checkpointing.{key.replace('_', '-')}", value)
    return coordinator_options(configuration)


def test_a_job_without_an_interval_has_no_periodic_checkpoints():
    assert not options_of().is_periodic
    assert options_of(interval="1 ms").is_periodic


def test_unaligned_checkpoints_are_taken_one_at_a_time():
    assert options_of(max_concurrent_checkpoints="3").max_concurrent == 3
    assert options_of(max_concurrent_checkpoints="3", unaligned="true").max_concurrent == 1


def test_unaligned_checkpoints_of_a_job_that_is_at_least_once_are_refused_by_name():
    assert not options_of(mode="AT_LEAST_ONCE").is_exactly_once
    with pytest.raises(ConfigurationError, match=r"execution\.checkpointing\.unaligned.* needs") as refused:
        options_of(mode="AT_LEAST_ONCE", unaligned="true")
    assert refused.value.details["option"].startswith("execution.checkpointing.unaligned")
