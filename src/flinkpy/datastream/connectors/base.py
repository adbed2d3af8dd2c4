"""The common types of connectors.

Source: pyflink.datastream.connectors.base. Differs: `Source` and `Sink` are not wrappers of Java objects but the
contracts of `flinkpy.connector_api`. `from_source` and `sink_to` accept Python classes that implement them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from flinkpy.connector_api.sink import DeliveryGuarantee, SinkBase
from flinkpy.connector_api.source import SourceBase

__all__ = ["DeliveryGuarantee", "Sink", "Source", "StreamTransformer", "SupportsPreprocessing"]

Source = SourceBase
Sink = SinkBase


class StreamTransformer(ABC):
    """Transforms a stream before it enters a sink."""

    @abstractmethod
    def apply(self, ds: Any) -> Any:
        """Returns the transformed stream."""


class SupportsPreprocessing(ABC):
    """A sink that transforms its input stream first."""

    @abstractmethod
    def get_transformer(self) -> StreamTransformer | None:
        """Returns the transformer; None if the stream needs none."""
