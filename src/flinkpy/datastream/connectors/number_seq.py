"""PyFlink's `pyflink.datastream.connectors.number_seq`."""

from flinkpy.connectors.number_sequence import NumberSequenceSource

__all__ = ["NumberSequenceSource"]
