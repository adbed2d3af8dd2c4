"""PyFlink's `pyflink.datastream.connectors.hybrid_source`."""

from flinkpy.connectors.hybrid_source import HybridSource, HybridSourceBuilder

__all__ = ["HybridSource", "HybridSourceBuilder"]
