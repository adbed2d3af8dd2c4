"""Reads the options `scan.watermark.*` of a table.

Source: org.apache.flink.table.factories.FactoryUtil.{checkWatermarkOptions, parseWatermarkOptions},
org.apache.flink.table.watermark.WatermarkParams.
"""

from __future__ import annotations

from collections.abc import Mapping

from flinkpy.common.errors import ValidationError
from flinkpy.graph.table_specs import WatermarkParams
from flinkpy.table.connectors.table_options import (
    WATERMARK_ALIGNMENT_GROUP,
    WATERMARK_ALIGNMENT_MAX_DRIFT,
    WATERMARK_ALIGNMENT_UPDATE_INTERVAL,
    WATERMARK_EMIT_GAP,
    WATERMARK_EMIT_STRATEGY,
    WATERMARK_IDLE_TIMEOUT,
    TableOptions,
)


def watermark_params(raw: Mapping[str, str], owner: str) -> WatermarkParams:
    """Reads the options of a table. Raises: ValidationError for values that are wrong or not supported.

    Args:
        owner: describes the table in errors.
    """
    options = TableOptions(raw, owner)
    if options.get(WATERMARK_EMIT_GAP) != 1:
        raise ValidationError(
            f"'{WATERMARK_EMIT_GAP.key}' of {owner}: only 1 is supported, a watermark after each row that advances "
            "event time"
        )
    group, drift = options.get(WATERMARK_ALIGNMENT_GROUP), options.get(WATERMARK_ALIGNMENT_MAX_DRIFT)
    if (group is None) != (drift is None):
        raise ValidationError(
            f"'{WATERMARK_ALIGNMENT_GROUP.key}' and '{WATERMARK_ALIGNMENT_MAX_DRIFT.key}' of {owner} must be set "
            "together"
        )
    interval = options.get(WATERMARK_ALIGNMENT_UPDATE_INTERVAL)
    return WatermarkParams(
        options.get(WATERMARK_EMIT_STRATEGY) == "on-event",
        options.get(WATERMARK_IDLE_TIMEOUT),
        None if group is None or drift is None else (group, drift, interval),
    )
