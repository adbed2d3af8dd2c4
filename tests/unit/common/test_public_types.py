"""The smaller classes of flinkpy.common."""

from __future__ import annotations

import datetime
import subprocess
import sys
from concurrent.futures import CancelledError, Future

import pytest

from flinkpy.common import (
    CompletableFuture,
    ConfigOptions,
    Configuration,
    Duration,
    ExecutionConfig,
    Instant,
    JobExecutionResult,
    JobID,
    JobStatus,
    RestartStrategies,
    SimpleStringSchema,
    Time,
    WatermarkStrategy,
)
from flinkpy.common.serialization import RowFieldExtractorSchema
from flinkpy.common.types import Row
from flinkpy.common.watermark_strategy import TimestampAssigner


def test_importing_the_package_loads_neither_arrow_nor_grpc() -> None:
    code = (
        "import sys; from flinkpy.common import *; "
        "import flinkpy.graph.validation, flinkpy.datastream.functions, flinkpy.datastream.state; "
        "print([name for name in ('pyarrow', 'numpy', 'grpc') if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert result.stdout.strip() == "[]"


def test_durations_count_in_their_units() -> None:
    assert Duration.of_days(1).to_millis() == 86_400_000
    assert Duration.of_seconds(1) == Duration.of_millis(1000) == Duration.of_nanos(1_000_000_000)
    assert Duration(datetime.timedelta(minutes=1)) == Duration.of_minutes(1)
    assert Time.hours(2).to_milliseconds() == 7_200_000
    assert Time.seconds(60) == Time.minutes(1)


def test_instant_converts_to_milliseconds_and_back() -> None:
    assert Instant.of_epoch_milli(-1) == Instant(-1, 999_000_000)
    assert Instant(-1, 999_000_000).to_epoch_milli() == -1


def test_job_status_knows_terminal_states() -> None:
    assert JobStatus.FINISHED.is_globally_terminal_state()
    assert not JobStatus.SUSPENDED.is_globally_terminal_state()
    assert JobStatus.SUSPENDED.is_terminal_state()
    assert JobStatus["INITIALIZING"] is JobStatus.CREATED


def test_execution_config_is_a_view_of_the_configuration() -> None:
    configuration = Configuration()
    config = ExecutionConfig(configuration)
    config.set_parallelism(3).set_auto_watermark_interval(50).disable_auto_generated_uids()

    assert config.get_parallelism() == 3
    assert config.get_auto_watermark_interval() == 50
    assert not config.has_auto_generated_uids_enabled()
    assert configuration.to_dict() == {
        "parallelism.default": "3",
        "pipeline.auto-watermark-interval": "50 ms",
        "pipeline.auto-generate-uids": "false",
    }


def test_global_job_parameters_are_replaced_as_a_whole() -> None:
    config = ExecutionConfig(Configuration())
    config.set_global_job_parameters({"a": "1", "b": "x,y:z"})
    config.set_global_job_parameters({"b": "x,y:z"})

    assert config.get_global_job_parameters() == {"b": "x,y:z"}


@pytest.mark.parametrize("parallelism", [0, -3, 1 << 16])
def test_parallelism_outside_its_range_is_refused(parallelism: int) -> None:
    with pytest.raises(ValueError, match="parallelism must be from 1"):
        ExecutionConfig(Configuration()).set_parallelism(parallelism)


def test_config_options_carry_type_and_default() -> None:
    option = ConfigOptions.key("my.key").int_type().default_value(3)

    assert (option.key, option.value_type, option.default) == ("my.key", int, 3)
    assert option == ConfigOptions.key("my.key").long_type().default_value(3)
    with pytest.raises(TypeError, match=r"my\.key"):
        ConfigOptions.key("my.key").int_type().default_value("x")  # type: ignore[arg-type]


def test_future_gives_the_answer_or_the_error() -> None:
    answered: Future[int] = Future()
    answered.set_result(1)
    failed: Future[int] = Future()
    failed.set_exception(ValueError("no"))
    cancelled: Future[int] = Future()
    cancelled.cancel()

    assert CompletableFuture(answered, str).result() == "1"
    assert CompletableFuture(answered).exception() is None
    with pytest.raises(ValueError, match="no"):
        CompletableFuture(failed).result()
    assert isinstance(CompletableFuture(cancelled).exception(), CancelledError)
    assert CompletableFuture(cancelled).done()


def test_job_execution_result_has_runtime_and_accumulators() -> None:
    result = JobExecutionResult(JobID("a" * 32), 12, {"n": 3})

    assert str(result.get_job_id()) == "a" * 32
    assert result.get_net_runtime() == 12
    assert result.get_accumulator_result("n") == 3
    assert result.get_all_accumulator_results() == {"n": 3}


def test_restart_strategies_describe_themselves() -> None:
    strategy = RestartStrategies.fixed_delay_restart(3, 1000)

    assert strategy.get_restart_attempts() == 3
    assert strategy.get_delay_between_attempts_interval() == datetime.timedelta(seconds=1)
    assert strategy.get_description() == "Restart with fixed delay (1000 ms). #3 restart attempts."
    assert RestartStrategies.no_restart() == RestartStrategies.no_restart()


def test_schemas_turn_records_into_bytes() -> None:
    assert SimpleStringSchema("utf-16-le").serialize("a") == b"a\0"
    assert SimpleStringSchema().deserialize("é".encode()) == "é"
    assert RowFieldExtractorSchema(1).serialize(Row(1, b"x")) == b"x"
    with pytest.raises(TypeError, match="index 0 must be bytes"):
        RowFieldExtractorSchema(0).serialize(Row(1, b"x"))
    with pytest.raises(LookupError):
        SimpleStringSchema("no-such-charset")


class _Assigner(TimestampAssigner):
    def extract_timestamp(self, value: int, record_timestamp: int) -> int:
        return value


def test_watermark_strategy_is_immutable() -> None:
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(5))
    changed = strategy.with_timestamp_assigner(_Assigner()).with_idleness(Duration.of_millis(10))

    assert strategy.timestamp_assigner is None
    assert (changed.out_of_orderness_ms, changed.idle_timeout_ms) == (5000, 10)
    assert WatermarkStrategy.no_watermarks().out_of_orderness_ms is None
    assert WatermarkStrategy.for_monotonous_timestamps().out_of_orderness_ms == 0
