"""PyFlink's `pyflink.datastream.state`: states, their descriptors and their time to live.

The classes live in `flinkpy.functions.state`.
"""

from __future__ import annotations

from flinkpy.functions.state import (
    AggregatingState,
    AggregatingStateDescriptor,
    BroadcastState,
    ListState,
    ListStateDescriptor,
    MapState,
    MapStateDescriptor,
    OperatorStateStore,
    ReadOnlyBroadcastState,
    ReducingState,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueState,
    ValueStateDescriptor,
)
from flinkpy.functions.state import AppendingState as AppendingState
from flinkpy.functions.state import MergingState as MergingState
from flinkpy.functions.state import State as State
from flinkpy.functions.state import StateDescriptor as StateDescriptor

__all__ = [
    "AggregatingState",
    "AggregatingStateDescriptor",
    "BroadcastState",
    "ListState",
    "ListStateDescriptor",
    "MapState",
    "MapStateDescriptor",
    "OperatorStateStore",
    "ReadOnlyBroadcastState",
    "ReducingState",
    "ReducingStateDescriptor",
    "StateTtlConfig",
    "ValueState",
    "ValueStateDescriptor",
]
