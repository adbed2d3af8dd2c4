"""Batch mode: what a program of bounded sources does differently. See docs/batch.md.

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
from flinkpy.configuration.execution_options import BATCH_SHUFFLE_MODE, SORT_INPUTS, USE_BATCH_STATE_BACKEND
from flinkpy.graph import operator_specs as specs

if TYPE_CHECKING:
    from flinkpy.common.watermark_strategy import WatermarkStrategy
    from flinkpy.graph.stream_graph import StreamGraph

_LOG = logging.getLogger(__name__)

_RUNTIME_MODE = "execution.runtime-mode"
_CHECKPOINT_INTERVAL = "execution.checkpointing.interval"

#: Operators with keys or a broadcast input, which wait for the end of their inputs.
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
    """Whether it does, by `execution.runtime-mode`: AUTOMATIC is batch mode where all sources are bounded.

    Raises:
        UnsupportedOperationError: BATCH, but a source is unbounded.
    """
    mode = configuration.get_string(_RUNTIME_MODE, "STREAMING").upper()
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
    """Change the graph's operators and exchanges to those of batch mode; returns the configuration of the job.

    Raises:
        UnsupportedOperationError: names the operator, or the shuffle mode, that batch mode does not have.
    """
    graph.are_exchanges_blocking = _are_exchanges_blocking(configuration)
    _check_inputs_are_sorted(configuration)
    for node in graph.nodes:
        node.batch_spec = batch_spec_of(node.transformation.spec)
    changed = copy.deepcopy(configuration)
    changed.set_string(_RUNTIME_MODE, "BATCH")
    # One key at a time: there is nothing that would have to be kept on disk.
    changed.set_string("state.backend.type", "hashmap")
    if changed.contains_key(_CHECKPOINT_INTERVAL):
        _LOG.warning("checkpoints are disabled: they are neither supported nor needed in batch mode")
    # Said, not left out: the cluster may have another default.
    changed.set_string(_CHECKPOINT_INTERVAL, "0 ms")
    return changed


def _check_inputs_are_sorted(configuration: Configuration) -> None:
    for option in (SORT_INPUTS, USE_BATCH_STATE_BACKEND):
        if not read_option(configuration, option):
            raise UnsupportedOperationError(
                f"{option.key}: false is not supported: in batch mode operators with keys get one key after the other"
            )


def _are_exchanges_blocking(configuration: Configuration) -> bool:
    mode = read_option(configuration, BATCH_SHUFFLE_MODE)
    if mode not in ("ALL_EXCHANGES_BLOCKING", "ALL_EXCHANGES_PIPELINED"):
        raise UnsupportedOperationError(
            f"execution.batch-shuffle-mode: {mode} is not supported; ALL_EXCHANGES_BLOCKING and "
            "ALL_EXCHANGES_PIPELINED are"
        )
    return mode == "ALL_EXCHANGES_BLOCKING"


def batch_spec_of(spec: specs.OperatorSpec) -> specs.OperatorSpec | None:
    """None: in batch mode the operator does the same as ever."""
    if isinstance(spec, _WAITING):
        return specs.BatchSpec(spec, input_types=spec.input_types, output_type=spec.output_type)
    if isinstance(spec, specs.WindowAggregateSpec) and not spec.is_event_time:
        raise UnsupportedOperationError(
            "windows of processing time over columns do not run in batch mode: use windows of event time, or a "
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
    """No watermark but the last one: time does not advance while records come."""
    changed = copy.copy(strategy)
    changed.out_of_orderness_ms = None
    changed.generator_supplier = None
    changed.idle_timeout_ms = None
    changed.alignment = None
    return changed
