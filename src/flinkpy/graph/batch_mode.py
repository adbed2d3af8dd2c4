"""Batch mode: changes the graph of a program with bounded sources. See docs/batch.md.

Source: org.apache.flink.streaming.api.graph.StreamGraphGenerator.
"""

from __future__ import annotations

import copy
import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from flinkpy.common.configuration import Configuration
from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.configuration import read_option
from flinkpy.configuration.core_options import EXECUTION_TARGET
from flinkpy.configuration.execution_options import BATCH_SHUFFLE_MODE, SORT_INPUTS, USE_BATCH_STATE_BACKEND
from flinkpy.graph import operator_specs as specs
from flinkpy.graph.stream_graph import StreamGraph

if TYPE_CHECKING:
    from flinkpy.common.watermark_strategy import WatermarkStrategy

_LOG = logging.getLogger(__name__)

_RUNTIME_MODE = "execution.runtime-mode"
_CHECKPOINT_INTERVAL = "execution.checkpointing.interval"

#: Operators that wait for the end of their inputs: those with keys or a broadcast input.
_WAITING = (
    specs.KeyedProcessSpec,
    specs.KeyedMapSpec,
    specs.KeyedCoProcessSpec,
    specs.KeyedTwoInputSpec,
    specs.WindowSpec,
    specs.ReduceSpec,
    specs.RollingAggregateSpec,
    specs.BroadcastProcessSpec,
    specs.KeyedBroadcastProcessSpec,
)


def runs_in_batch_mode(graph: StreamGraph, configuration: Configuration) -> bool:
    """True if `execution.runtime-mode` is BATCH, or is AUTOMATIC and all sources are bounded.

    Raises:
        UnsupportedOperationError: if the mode is BATCH but a source is unbounded, or if `execution.target` is `spark`
            but the mode is STREAMING.
    """
    is_spark_only = read_option(configuration, EXECUTION_TARGET) == "spark"
    mode = configuration.get_string(_RUNTIME_MODE, "BATCH" if is_spark_only else "STREAMING").upper()
    if is_spark_only and mode == "STREAMING":
        raise UnsupportedOperationError(
            f"{_RUNTIME_MODE} is STREAMING, but {EXECUTION_TARGET.key} is spark: without a flinkpy cluster Spark runs "
            "batch programs only. Remove the mode, or set it to BATCH"
        )
    if mode not in ("BATCH", "AUTOMATIC"):
        return False
    unbounded = [node.name for node in graph.sources if not node.transformation.is_bounded]
    if unbounded and mode == "BATCH":
        raise UnsupportedOperationError(
            "Detected an UNBOUNDED source with the 'execution.runtime-mode' set to 'BATCH'. This combination is not "
            "allowed, please set the 'execution.runtime-mode' to STREAMING or AUTOMATIC. Unbounded: "
            + ", ".join(f"'{name}'" for name in unbounded)
        )
    return not unbounded


def to_batch_mode(graph: StreamGraph, configuration: Configuration) -> Configuration:
    """Changes the operators and exchanges of the graph for batch mode. Returns the configuration of the job.

    Raises:
        UnsupportedOperationError: if batch mode does not support an operator or the shuffle mode.
    """
    graph.are_exchanges_blocking = _are_exchanges_blocking(configuration)
    _check_inputs_are_sorted(configuration)
    for node in graph.nodes:
        node.batch_spec = batch_spec_of(node.transformation.spec)
    changed = copy.deepcopy(configuration)
    changed.set_string(_RUNTIME_MODE, "BATCH")
    # Operators process one key at a time, so the state is small and needs no disk.
    changed.set_string("state.backend.type", "hashmap")
    if changed.contains_key(_CHECKPOINT_INTERVAL):
        _LOG.warning("checkpoints are disabled: they are neither supported nor needed in batch mode")
    # Set explicitly, because the cluster may have another default.
    changed.set_string(_CHECKPOINT_INTERVAL, "0 ms")
    return changed


def _check_inputs_are_sorted(configuration: Configuration) -> None:
    for option in (SORT_INPUTS, USE_BATCH_STATE_BACKEND):
        if not read_option(configuration, option):
            raise UnsupportedOperationError(
                f"{option.key}: false is not supported: in batch mode keyed operators process one key after the other"
            )


def _are_exchanges_blocking(configuration: Configuration) -> bool:
    mode = read_option(configuration, BATCH_SHUFFLE_MODE)
    if mode not in ("ALL_EXCHANGES_BLOCKING", "ALL_EXCHANGES_PIPELINED"):
        raise UnsupportedOperationError(
            f"execution.batch-shuffle-mode: {mode} is not supported. Use ALL_EXCHANGES_BLOCKING or "
            "ALL_EXCHANGES_PIPELINED"
        )
    return mode == "ALL_EXCHANGES_BLOCKING"


def batch_spec_of(spec: specs.OperatorSpec) -> specs.OperatorSpec | None:
    """Returns the spec for batch mode, or None if the operator does not change."""
    if isinstance(spec, specs.KeyedTwoInputSpec) and not spec.takes_key_by_key:
        return None
    if isinstance(spec, _WAITING):
        return specs.BatchSpec(spec, input_types=spec.input_types, output_type=spec.output_type)
    if isinstance(spec, specs.WindowAggregateSpec) and not spec.is_event_time:
        raise UnsupportedOperationError(
            "processing-time windows over columns are not supported in batch mode. Use event-time windows, or a "
            "ReduceFunction or AggregateFunction"
        )
    if isinstance(spec, specs.ColumnAggregateSpec):
        return replace(spec, emit="FINAL")
    if isinstance(spec, specs.TimestampsAndWatermarksSpec):
        return replace(spec, watermark_strategy=_timestamps_only(spec.watermark_strategy))
    if isinstance(spec, specs.SourceSpec) and spec.watermark_strategy is not None:
        return replace(spec, watermark_strategy=_timestamps_only(spec.watermark_strategy))
    return None


def _timestamps_only(strategy: WatermarkStrategy) -> WatermarkStrategy:
    """Returns the strategy without watermarks, except the last one: event time does not advance during the input."""
    changed = copy.copy(strategy)
    changed.out_of_orderness_ms = None
    changed.generator_supplier = None
    changed.idle_timeout_ms = None
    changed.alignment = None
    return changed
