"""PyFlink's `pyflink.datastream.connectors`: sources and sinks for `from_source` and `sink_to`.

`DiscardingSink` is beyond PyFlink, where the Java class of that name has to be named as a string.
"""

from flinkpy.connectors.discard_sink import DiscardingSink
from flinkpy.datastream.connectors.base import DeliveryGuarantee, Sink, Source

__all__ = ["DeliveryGuarantee", "DiscardingSink", "Sink", "Source"]
