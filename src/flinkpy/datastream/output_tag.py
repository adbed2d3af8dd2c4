"""PyFlink's `pyflink.datastream.output_tag`. OutputTag lives in `flinkpy.functions.output_tag`."""

from __future__ import annotations

from flinkpy.functions.output_tag import OutputTag

__all__ = [
    "OutputTag",
]
