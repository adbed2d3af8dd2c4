"""PyFlink's `pyflink.datastream.data_stream`: re-exports the stream classes, which have modules of their own."""

from __future__ import annotations

from flinkpy.datastream.base_stream import DataStream, DataStreamSink
from flinkpy.datastream.cached_data_stream import CachedDataStream
from flinkpy.datastream.collected_results import CloseableIterator
from flinkpy.datastream.connected_streams import BroadcastConnectedStream, BroadcastStream, ConnectedStreams
from flinkpy.datastream.keyed_stream import KeyedStream
from flinkpy.datastream.windowed_stream import AllWindowedStream, WindowedStream

#: PyFlink's name for the state that holds the records of a window.
WINDOW_STATE_NAME = "window-contents"

__all__ = [
    "AllWindowedStream",
    "BroadcastConnectedStream",
    "BroadcastStream",
    "CachedDataStream",
    "CloseableIterator",
    "ConnectedStreams",
    "DataStream",
    "DataStreamSink",
    "KeyedStream",
    "WindowedStream",
]
