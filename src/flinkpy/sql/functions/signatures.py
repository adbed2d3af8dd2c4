"""Signatures: the arguments that a function accepts, written as text such as `CHARACTER_STRING, INTEGER?`.

| part | arguments it accepts |
|---|---|
| ANY | any |
| NUMERIC, EXACT_NUMERIC, INTEGER_NUMERIC, CHARACTER_STRING, ... | of a family, see `_FAMILIES` |
| INTEGER, BIGINT, DOUBLE, BOOLEAN, STRING, ... | of a type, after an implicit cast |
| COMMON | any, cast to the common type of all COMMON arguments |
| COMPARABLE | those that can be compared with each other, cast to their common type |
| ARRAY_ELEMENT | of the element type of the first argument |
| SYMBOL | a keyword |
| LITERAL:x | a literal that x accepts |
| x? | at the end: the argument may be left out |
| x... | at the end: any number of them, at least one |
| x*... | at the end: any number of them, or none |

Source: org.apache.flink.table.types.inference.InputTypeStrategies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from flinkpy.sql.types import families as of
from flinkpy.sql.types import logical_types as lt
from flinkpy.sql.types.casting import supports_implicit_cast
from flinkpy.sql.types.logical_types import TypeRoot as R
from flinkpy.sql.types.merging import find_common_type

#: Groups of roots, and the type that NULL gets there.
_FAMILIES: dict[str, tuple[frozenset[R], lt.LogicalType]] = {
    "NUMERIC": (of.NUMERIC, lt.IntType()),
    "EXACT_NUMERIC": (of.EXACT_NUMERIC, lt.IntType()),
    "INTEGER_NUMERIC": (of.INTEGER_NUMERIC, lt.IntType()),
    "CHARACTER_STRING": (of.CHARACTER_STRING, lt.VarCharType()),
    "BINARY_STRING": (of.BINARY_STRING, lt.VarBinaryType()),
    "TIMESTAMP": (of.TIMESTAMP, lt.TimestampType(3)),
    "DATETIME": (of.DATETIME, lt.TimestampType(3)),
    "TEMPORAL": (of.DATETIME | of.INTERVAL, lt.TimestampType(3)),
    "INTERVAL": (of.INTERVAL, lt.DayTimeIntervalType()),
    "INTERVAL_YEAR_MONTH": (frozenset({R.INTERVAL_YEAR_MONTH}), lt.YearMonthIntervalType()),
    "INTERVAL_DAY_TIME": (frozenset({R.INTERVAL_DAY_TIME}), lt.DayTimeIntervalType()),
    "DECIMAL": (frozenset({R.DECIMAL}), lt.DecimalType(38, 0)),
    "ARRAY": (frozenset({R.ARRAY}), lt.ArrayType(lt.NullType())),
    "MAP": (frozenset({R.MAP}), lt.MapType(lt.VarCharType(), lt.VarCharType())),
    "COLLECTION": (of.COLLECTION, lt.ArrayType(lt.NullType())),
    "ROW": (frozenset({R.ROW}), lt.RowType(())),
    "PREDEFINED": (of.PREDEFINED, lt.VarCharType()),
    "VARIANT": (frozenset({R.VARIANT}), lt.VariantType()),
    "BITMAP": (frozenset({R.BITMAP}), lt.BitmapType()),
    "JSON_VALUE_TYPE": (
        of.CHARACTER_STRING | of.BINARY_STRING | of.TIMESTAMP | of.CONSTRUCTED | of.NUMERIC | {R.BOOLEAN, R.VARIANT},
        lt.VarCharType(),
    ),
}
#: Single types, to which arguments are cast implicitly.
_TYPES: dict[str, lt.LogicalType] = {
    "INTEGER": lt.IntType(),
    "BIGINT": lt.BigIntType(),
    "DOUBLE": lt.DoubleType(),
    "BOOLEAN": lt.BooleanType(),
    "STRING": lt.VarCharType(),
    "ARRAY<STRING>": lt.ArrayType(lt.VarCharType()),
    "ARRAY<INT>": lt.ArrayType(lt.IntType()),
}
_LITERAL = "LITERAL:"
_SHOWN = {
    "STRING": "STRING",
    "ARRAY<STRING>": "ARRAY<STRING>",
    "ARRAY<INT>": "ARRAY<INT>",
    "ARRAY_ELEMENT": "<ARRAY ELEMENT>",
}


@dataclass(frozen=True, slots=True)
class Signature:
    """The kinds of the arguments, in their order. `rest` is the kind of any more arguments."""

    arguments: tuple[str, ...]
    num_optional: int = 0
    rest: str | None = None

    def coerced(self, types: Sequence[lt.LogicalType], literals: Sequence[Any]) -> tuple[lt.LogicalType, ...] | None:
        """Returns the types to which arguments are cast; None if they do not fit."""
        required = len(self.arguments) - self.num_optional
        if len(types) < required or (self.rest is None and len(types) > len(self.arguments)):
            return None
        kinds = [*self.arguments[: len(types)], *[self.rest] * (len(types) - len(self.arguments))]
        common = _common_types(types, kinds)  # type: ignore[arg-type]
        if common is None:
            return None
        coerced = []
        for index, (kind, type_) in enumerate(zip(kinds, types)):
            assert kind is not None
            if kind.startswith(_LITERAL):
                kind = kind.removeprefix(_LITERAL)
                if repr(literals[index]) == "NOT_LITERAL":
                    return None
            fitted = common[index] or _fitted(kind, type_, types)
            if fitted is None:
                return None
            coerced.append(fitted.as_nullable(type_.nullable))
        return tuple(coerced)

    def __str__(self) -> str:
        shown = [_shown(kind) for kind in self.arguments]
        if self.rest is not None:
            shown.append(f"{_shown(self.rest)}...")
        return ", ".join(shown)


@lru_cache(maxsize=1024)
def parse_signature(text: str) -> Signature:
    """Returns the signature that a text describes, see the head of this module."""
    arguments: list[str] = []
    num_optional = 0
    rest: str | None = None
    for part in filter(None, (part.strip() for part in text.split(", "))):
        if part.endswith("*..."):
            rest = part.removesuffix("*...")
        elif part.endswith("..."):
            rest = part.removesuffix("...")
            arguments.append(rest)
        else:
            num_optional += part.endswith("?")
            arguments.append(part.removesuffix("?"))
    return Signature(tuple(arguments), num_optional, rest)


def _shown(kind: str) -> str:
    if kind.startswith(_LITERAL):
        return f"{_shown(kind.removeprefix(_LITERAL))} LITERAL"
    return _SHOWN.get(kind, f"<{kind}>")


def _common_types(types: Sequence[lt.LogicalType], kinds: Sequence[str]) -> list[lt.LogicalType | None] | None:
    """Returns the type of each COMMON and COMPARABLE argument, None for others; None if they have none in common."""
    result: list[lt.LogicalType | None] = [None] * len(types)
    for group in ("COMMON", "COMPARABLE"):
        members = [index for index, kind in enumerate(kinds) if kind == group]
        if not members:
            continue
        given = [types[index] for index in members]
        if all(isinstance(kind, lt.NullType) for kind in given):
            common: lt.LogicalType | None = lt.NullType()
        else:
            common = find_common_type(given)
        if common is None or (group == "COMPARABLE" and not is_comparable(common)):
            return None
        for index in members:
            result[index] = common
    return result


def is_comparable(kind: lt.LogicalType) -> bool:
    """True if values of the type can be compared for equality."""
    if kind.root in (R.RAW, R.SYMBOL, R.DESCRIPTOR, R.BITMAP):
        return False
    return all(is_comparable(child) for child in kind.children)


def _fitted(kind: str, type_: lt.LogicalType, types: Sequence[lt.LogicalType]) -> lt.LogicalType | None:
    if kind == "ANY":
        return type_
    if kind == "SYMBOL":
        return type_ if isinstance(type_, lt.SymbolType) else None
    if kind == "ARRAY_ELEMENT":
        return _element(type_, types[0])
    if kind in _TYPES:
        wanted = _TYPES[kind]
        if isinstance(type_, lt.NullType) or supports_implicit_cast(type_.as_nullable(), wanted):
            return type_ if wanted.root is R.VARCHAR and type_.root in of.CHARACTER_STRING else wanted
        return None
    roots, default = _FAMILIES[kind]
    if isinstance(type_, lt.NullType):
        return default
    return type_ if type_.root in roots else None


def _element(type_: lt.LogicalType, array: lt.LogicalType) -> lt.LogicalType | None:
    if not isinstance(array, lt.ArrayType):
        return None
    if isinstance(type_, lt.NullType) or supports_implicit_cast(type_.as_nullable(), array.element.as_nullable()):
        return array.element
    return None
