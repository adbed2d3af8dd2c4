"""Definitions of aggregate functions: their arguments and the types of their results. Operators compute them.

Source: org.apache.flink.table.functions.BuiltInFunctionDefinitions.
"""

from __future__ import annotations

from typing import Any

from flinkpy.common.errors import ValidationError
from flinkpy.sql.functions.definition import FunctionKind, Inference, Returns, definition
from flinkpy.sql.functions.registry import register
from flinkpy.sql.functions.results import BIGINT, DOUBLE, INT, STRING, exactly
from flinkpy.sql.types import logical_types as lt
from flinkpy.sql.types.merging import find_avg_agg_type, find_sum_agg_type

_COUNT = exactly(BIGINT.not_null())


def _aggregate(name: str, *signatures: str, returns: Returns, **properties: Any) -> None:
    register(definition(name, FunctionKind.AGGREGATE, signatures, returns, None, **properties))


def _first(call: Inference) -> lt.LogicalType:
    return call.types[0].as_nullable()


def _shifted(call: Inference) -> lt.LogicalType:
    """LAG and LEAD: NOT NULL only if there is a default value that is."""
    return call.types[0].as_nullable(len(call.types) < 3 or call.any_nullable)


_JSON_AGGREGATE = exactly(lt.VarCharType(2000, nullable=False))


def _percentile(call: Inference) -> lt.LogicalType:
    fraction = call.literal(1)
    for each in fraction if isinstance(fraction, list) else [fraction]:
        if each is not None and not 0 <= each <= 1:
            raise ValidationError(f"the fractions of PERCENTILE must be from 0 to 1, not {each}")
    if isinstance(call.types[1], lt.ArrayType):
        return lt.ArrayType(DOUBLE)
    return DOUBLE


_aggregate("COUNT", "", "ANY...", returns=_COUNT)
_aggregate("SUM", "NUMERIC", returns=lambda call: find_sum_agg_type(call.types[0]).as_nullable())
_aggregate("SUM0", "NUMERIC", returns=lambda call: find_sum_agg_type(call.types[0]).not_null(), aliases=("$SUM0",))
_aggregate("AVG", "NUMERIC", returns=lambda call: find_avg_agg_type(call.types[0]).as_nullable())
_aggregate("MIN", "COMPARABLE", returns=_first)
_aggregate("MAX", "COMPARABLE", returns=_first)
_aggregate("FIRST_VALUE", "ANY", returns=_first)
_aggregate("LAST_VALUE", "ANY", returns=_first)
_aggregate("SINGLE_VALUE", "ANY", returns=_first)
_aggregate("LISTAGG", "CHARACTER_STRING", "CHARACTER_STRING, LITERAL:CHARACTER_STRING", returns=exactly(STRING))
_aggregate("COLLECT", "ANY", returns=lambda call: lt.MultisetType(call.types[0], nullable=False))
_aggregate("ARRAY_AGG", "ANY", returns=lambda call: lt.ArrayType(call.types[0]))
for _name, _aliases in (
    ("STDDEV_POP", ()),
    ("STDDEV_SAMP", ("STDDEV",)),
    ("VAR_POP", ()),
    ("VAR_SAMP", ("VARIANCE",)),
):
    # As AVG, they have the type of their argument, and DECIMAL gets 38 digits.
    _aggregate(_name, "NUMERIC", returns=lambda call: find_avg_agg_type(call.types[0]).as_nullable(), aliases=_aliases)
_aggregate("PERCENTILE", "NUMERIC, ANY", "NUMERIC, ANY, INTEGER_NUMERIC", returns=_percentile)
_aggregate("APPROX_COUNT_DISTINCT", "ANY", returns=_COUNT)
_aggregate("JSON_OBJECTAGG", "SYMBOL, CHARACTER_STRING, JSON_VALUE_TYPE", returns=exactly(STRING.not_null()))
for _on_null in ("NULL_ON_NULL", "ABSENT_ON_NULL"):
    # The values are JSON texts here.
    _aggregate(f"JSON_OBJECTAGG_{_on_null}", "CHARACTER_STRING, CHARACTER_STRING", returns=_JSON_AGGREGATE)
    _aggregate(f"JSON_ARRAYAGG_{_on_null}", "CHARACTER_STRING", returns=_JSON_AGGREGATE)
_aggregate("JSON_ARRAYAGG", "SYMBOL, JSON_VALUE_TYPE", returns=exactly(STRING.not_null()))
_aggregate("GROUPING", "ANY...", returns=_COUNT)
_aggregate("GROUPING_ID", "ANY...", returns=_COUNT)
_aggregate("GROUP_ID", "", returns=_COUNT)

# -- functions of OVER ----------------------------------------------------------------------------------------------

_aggregate("ROW_NUMBER", "", returns=_COUNT)
_aggregate("RANK", "", returns=_COUNT)
_aggregate("DENSE_RANK", "", returns=_COUNT)
_aggregate("NTILE", "INTEGER_NUMERIC", returns=exactly(INT))
_aggregate("CUME_DIST", "", returns=exactly(DOUBLE.not_null()))
_aggregate("PERCENT_RANK", "", returns=exactly(DOUBLE.not_null()))
for _name in ("LAG", "LEAD"):
    _aggregate(_name, "ANY", "ANY, INTEGER_NUMERIC", "COMMON, INTEGER_NUMERIC, COMMON", returns=_shifted)

for _name, _type in (
    ("BITMAP_BUILD_AGG", lt.BitmapType()),
    ("BITMAP_BUILD_CARDINALITY_AGG", BIGINT),
):
    _aggregate(_name, "INTEGER", returns=exactly(_type))
for _operation in ("AND", "OR", "XOR"):
    _aggregate(f"BITMAP_{_operation}_AGG", "BITMAP", returns=exactly(lt.BitmapType()))
    _aggregate(f"BITMAP_{_operation}_CARDINALITY_AGG", "BITMAP", returns=exactly(BIGINT))
