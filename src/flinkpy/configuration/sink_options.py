"""Sinks with two phases. Source: org.apache.flink.configuration.SinkOptions."""

from __future__ import annotations

from flinkpy.configuration.options import int_option

COMMITTER_RETRIES = int_option(
    "sink.committer.retries",
    10,
    "Maximum number of retries of a failed commit before the job fails.",
    minimum=0,
)
