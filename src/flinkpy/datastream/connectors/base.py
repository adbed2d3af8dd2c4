"""What all connectors are.

Source: pyflink.datastream.connectors.base. Differs: `Source` and `Sink` are not wrappers of Java objects but the
contracts of `flinkpy.connector_api`; a Python class that implements one can be given to `from_source` or `sink_to`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import Enum
from typing import Any

from flinkpy.connector_api.sink import SinkBase
from flinkpy.connector_api.source import SourceBase

__all__ = ["DeliveryGuarantee", "Sink", "Source", "StreamTransformer", "SupportsPreprocessing"]

Source = SourceBase
Sink = SinkBase


class DeliveryGuarantee(Enum):
    """How often a record may appear in an external system when a job fails and recovers."""

    EXACTLY_ONCE = (0,)
    AT_LEAST_ONCE = (1,)
    NONE = 2


class StreamTransformer(ABC):
    """Changes a stream before it enters a sink."""

    @abstractmethod
    def apply(self, ds: Any) -> Any: ...


class SupportsPreprocessing(ABC):
    """A sink that wants its stream changed first."""

    @abstractmethod
    def get_transformer(self) -> StreamTransformer | None: ...
