"""Options of programs over columns."""

from __future__ import annotations

from flinkpy.configuration.options import bool_option

OPTIMIZER_ENABLED = bool_option(
    "execution.columns.optimizer.enabled",
    True,
    "Optimize column programs so that they process less data: push projections and predicates into sources and, in "
    "batch mode, fuse selections and aggregate by key before exchanges.",
)
