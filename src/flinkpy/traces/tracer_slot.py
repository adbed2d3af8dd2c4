"""The tracer of this process, for code that reports spans if there is one. Importing this module loads nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flinkpy.traces.reporting import Tracer

__all__ = ["current_tracer", "install_tracer"]

#: None: no reporter is configured, and nothing is measured.
_tracer: Tracer | None = None


def current_tracer() -> Tracer | None:
    """Returns the tracer of this process, or None if it reports neither spans nor events."""
    return _tracer


def install_tracer(tracer: Tracer | None) -> None:
    """Makes `tracer` the tracer of this process. Without reporters there is none."""
    global _tracer
    _tracer = tracer if tracer is not None and (tracer.has_spans or tracer.has_events) else None
