"""PlanValues: converts what physical nodes hold (types, expressions, keys, windows) to JSON and back.

| value | JSON |
|---|---|
| a logical type | its SQL text; an object if the text does not say all, as for time attributes |
| a dataclass, such as an expression | an object: `$kind` is the class, the rest are fields unlike their defaults |
| a member of an enumeration | its name; `{"$enum": "JoinType.INNER"}` where the field does not say the class |
| a tuple | an array |
| Decimal, date, time, timestamp, bytes, dict, NaN | an object with one key that begins with `$` |

Names of fields are in camel case. A field that a later version adds needs a default, so that it can read older plans.

Source: org.apache.flink.table.planner.plan.nodes.exec.serde.{JsonSerdeUtil, RexNodeJsonSerializer,
LogicalTypeJsonSerializer}.
"""

from __future__ import annotations

import base64
import dataclasses
import datetime as dt
import enum
import math
import typing
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import cache, lru_cache
from importlib import import_module
from types import UnionType
from typing import Any

from flinkpy.common.errors import TableProgramError, UnsupportedOperationError, ValidationError
from flinkpy.common.time import Instant
from flinkpy.sql.functions.user_aggregates import UserAggregateFunction
from flinkpy.sql.rex import UserFunctionCall
from flinkpy.sql.types.logical_types import LogicalType

#: The modules whose dataclasses and enumerations a plan may hold.
_MODULES = (
    "flinkpy.cep.pattern",
    "flinkpy.sql.functions.user_aggregates",
    "flinkpy.sql.rex",
    "flinkpy.sql.types.logical_types",
    "flinkpy.graph.table_specs",
    "flinkpy.table.connectors.abilities",
    "flinkpy.table.planner.logical.nodes",
    "flinkpy.table.planner.physical.emit_strategy",
)
_FUNCTION = "function"


class PlanValues:
    """Encodes and decodes values.

    Args:
        find_function: returns the user's function of a name for which a plan was compiled; None if there is none.
    """

    def __init__(self, find_function: Callable[[str], Any]) -> None:
        self._find_function = find_function

    # -- encoding ----------------------------------------------------------------------------------------------------

    def encode(self, value: Any) -> Any:
        """Returns the JSON of a value. Raises: UnsupportedOperationError if a plan cannot hold it."""
        if value is None or (isinstance(value, (bool, int, str)) and not isinstance(value, enum.Enum)):
            return value
        if isinstance(value, float):
            return value if math.isfinite(value) else {"$double": str(value)}
        if isinstance(value, LogicalType):
            return {"$type": self.encode_type(value)}
        if isinstance(value, enum.Enum):
            return {"$enum": f"{_known(type(value))}.{value.name}"}
        if isinstance(value, (tuple, list)):
            return [self.encode(each) for each in value]
        if isinstance(value, dict):
            return {"$map": [[self.encode(key), self.encode(each)] for key, each in value.items()]}
        for tag, (kind, encode, _) in _SCALARS.items():
            if isinstance(value, kind):
                return {tag: encode(value)}
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return {"$kind": _known(type(value)), **self.encode_fields(value)}
        raise UnsupportedOperationError(f"A plan cannot hold a value of the class {type(value).__name__}: {value!r}")

    def encode_fields(self, value: Any, skipped: frozenset[str] = frozenset()) -> dict[str, Any]:
        """Returns the fields of a dataclass that differ from their defaults."""
        if isinstance(value, (UserFunctionCall, UserAggregateFunction)):
            skipped |= {_FUNCTION}
        found: dict[str, Any] = {}
        for each in dataclasses.fields(value):
            item = getattr(value, each.name)
            if each.name in skipped or _is_default(each, item):
                continue
            found[_camel(each.name)] = self._encode_as(_hint(type(value), each.name), item)
        return found

    def _encode_as(self, hint: Any, value: Any) -> Any:
        if isinstance(value, LogicalType) and _is_subclass(hint, LogicalType):
            return self.encode_type(value)
        if isinstance(value, enum.Enum) and _is_subclass(hint, enum.Enum):
            return value.name
        return self.encode(value)

    def encode_type(self, kind: LogicalType) -> Any:
        """Returns the SQL text of a type, or an object if the text would be another type."""
        text = str(kind)
        if _type_of_text(text) == kind:
            return text
        fields = self.encode_fields(kind)
        return {"$kind": type(kind).__name__, **fields}

    # -- decoding ----------------------------------------------------------------------------------------------------

    def decode(self, data: Any) -> Any:
        """Returns the value. Raises: TableProgramError if this version does not know it."""
        if isinstance(data, list):
            return tuple(self.decode(each) for each in data)
        if not isinstance(data, dict):
            return data
        if "$kind" in data:
            kind = _classes().get(data["$kind"])
            if kind is None or not dataclasses.is_dataclass(kind):
                raise TableProgramError(f"The plan has a value of the unknown kind '{data['$kind']}'.{LATER_VERSION}")
            rest = {key: value for key, value in data.items() if key != "$kind"}
            return self.build(kind, rest, data["$kind"])
        ((tag, inner),) = data.items()
        if tag == "$type":
            return self.decode_type(inner)
        if tag == "$map":
            return {self.decode(key): self.decode(value) for key, value in inner}
        if tag == "$enum":
            name, _, member = inner.partition(".")
            return _member(_classes().get(name), member, inner)
        if tag in _SCALARS:
            return _SCALARS[tag][2](inner)
        raise TableProgramError(f"The plan has a value of the unknown form '{tag}'.{LATER_VERSION}")

    def build(self, cls: type[Any], data: dict[str, Any], described: str, **given: Any) -> Any:
        """Returns an object of a dataclass from its JSON fields, and from fields that are given as objects."""
        known = {_camel(each.name): each.name for each in dataclasses.fields(cls)}
        arguments: dict[str, Any] = dict(given)
        for key, value in data.items():
            name = known.get(key)
            if name is None:
                raise TableProgramError(f"The plan has the unknown field '{key}' of '{described}'.{LATER_VERSION}")
            arguments[name] = self._decode_as(_hint(cls, name), value)
        if issubclass(cls, (UserFunctionCall, UserAggregateFunction)):
            arguments[_FUNCTION] = self._function(arguments["name"])
        missing = [
            _camel(each.name)
            for each in dataclasses.fields(cls)
            if each.name not in arguments
            and each.default is dataclasses.MISSING
            and each.default_factory is dataclasses.MISSING
        ]
        if missing:
            raise TableProgramError(f"The plan lacks the field '{missing[0]}' of '{described}'.")
        return cls(**arguments)

    def _decode_as(self, hint: Any, data: Any) -> Any:
        if data is not None and _is_subclass(hint, LogicalType):
            return self.decode_type(data)
        if isinstance(data, str):
            enumeration = _enumeration(hint)
            if enumeration is not None:
                return _member(enumeration, data, data)
        return self.decode(data)

    def decode_type(self, data: Any) -> LogicalType:
        """Returns the type. Raises: TableProgramError if this version does not know it."""
        found = _type_of_text(data) if isinstance(data, str) else self.decode(data)
        if not isinstance(found, LogicalType):
            raise TableProgramError(f"The plan has the unknown type '{data}'.{LATER_VERSION}")
        return found

    def _function(self, name: str) -> Any:
        found = self._find_function(name)
        if found is None:
            raise TableProgramError(
                f"The plan calls the user-defined function '{name}', which this session does not have. Register it "
                "under this name before the plan is loaded."
            )
        return found


#: The end of errors about plans with parts that this version does not have.
LATER_VERSION = " It was probably compiled by a later version of flinkpy."


# -- scalars ---------------------------------------------------------------------------------------------------------

#: For each tag the class, and the functions to text and back. A datetime is a date, too, so it comes first.
_SCALARS: dict[str, tuple[type[Any], Callable[[Any], Any], Callable[[Any], Any]]] = {
    "$double": (float, str, float),
    "$decimal": (Decimal, str, Decimal),
    "$bytes": (bytes, lambda value: base64.b64encode(value).decode("ascii"), base64.b64decode),
    "$timestamp": (dt.datetime, dt.datetime.isoformat, dt.datetime.fromisoformat),
    "$date": (dt.date, dt.date.isoformat, dt.date.fromisoformat),
    "$time": (dt.time, dt.time.isoformat, dt.time.fromisoformat),
    "$interval": (
        dt.timedelta,
        lambda value: [value.days, value.seconds, value.microseconds],
        lambda parts: dt.timedelta(*parts),
    ),
    "$instant": (Instant, lambda value: [value.seconds, value.nanos], lambda parts: Instant(*parts)),
}


# -- classes ---------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _classes() -> dict[str, type[Any]]:
    """Returns the dataclasses and enumerations that a plan may hold, by name."""
    return {
        name: each
        for module in _MODULES
        for name, each in vars(import_module(module)).items()
        if isinstance(each, type)
        and each.__module__ == module
        and (dataclasses.is_dataclass(each) or issubclass(each, enum.Enum))
    }


def _known(cls: type[Any]) -> str:
    if _classes().get(cls.__name__) is not cls:
        raise UnsupportedOperationError(f"A plan cannot hold a value of the class {cls.__name__}.")
    return cls.__name__


def _member(cls: type[Any] | None, name: str, text: str) -> Any:
    if cls is None or not issubclass(cls, enum.Enum) or name not in cls.__members__:
        raise TableProgramError(f"The plan has the unknown value '{text}'.{LATER_VERSION}")
    return cls[name]


@cache
def _hints(cls: type[Any]) -> dict[str, Any]:
    return typing.get_type_hints(cls)


def _hint(cls: type[Any], field: str) -> Any:
    hints: dict[str, Any] = _hints(cls)  # type: ignore[arg-type]  # classes can be hashed
    return hints.get(field)


def _options(hint: Any) -> Iterator[Any]:
    """Yields the classes of `A | None` and the like."""
    if isinstance(hint, UnionType) or typing.get_origin(hint) is typing.Union:
        yield from (each for each in typing.get_args(hint) if each is not type(None))
    else:
        yield hint


def _is_subclass(hint: Any, cls: type[Any]) -> bool:
    return all(isinstance(each, type) and issubclass(each, cls) for each in _options(hint))


def _enumeration(hint: Any) -> type[Any] | None:
    found = list(_options(hint))
    return found[0] if len(found) == 1 and isinstance(found[0], type) and issubclass(found[0], enum.Enum) else None


def _is_default(each: dataclasses.Field[Any], value: Any) -> bool:
    if each.default is not dataclasses.MISSING:
        return type(value) is type(each.default) and bool(value == each.default)
    if each.default_factory is not dataclasses.MISSING:
        return bool(value == each.default_factory())
    return False


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(each.capitalize() for each in rest)


@lru_cache(maxsize=4096)
def _type_of_text(text: str) -> LogicalType | None:
    """Returns the type of a SQL text; None if it is none."""
    from flinkpy.table.type_conversion import logical_type_of

    try:
        return logical_type_of(text)
    except ValidationError:
        return None
