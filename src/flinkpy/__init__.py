"""flinkpy: Apache Flink's runtime, guarantees and names, in Python."""

__version__ = "0.1.0"
