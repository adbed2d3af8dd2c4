"""Options of programs over columns."""

from __future__ import annotations

from flinkpy.configuration.options import bool_option

OPTIMIZER_ENABLED = bool_option(
    "execution.columns.optimizer.enabled",
    True,
    "Whether programs of column operations are changed so that they do the same with less data: projections and "
    "predicates are pushed into sources; in batch mode selections are fused and keys aggregated before exchanges.",
)
