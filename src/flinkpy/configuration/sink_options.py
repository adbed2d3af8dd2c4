"""Sinks with two phases. Source: org.apache.flink.configuration.SinkOptions."""

from __future__ import annotations

from flinkpy.configuration.options import int_option

COMMITTER_RETRIES = int_option(
    "sink.committer.retries",
    10,
    "How often a committable that could not be committed is tried again before the job fails.",
    minimum=0,
)
