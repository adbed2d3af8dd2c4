"""Describes the types of stored values, and converts stored values to the current type of their state.

A description is plain JSON, so it can be read without the user's classes:

| type | description |
|---|---|
| a basic type, a date or time | `{"type": "LONG"}` |
| DECIMAL | `{"type": "DECIMAL", "precision": 15, "scale": 2}` |
| ROW | `{"type": "ROW", "fields": [[name, description], ...]}` |
| TUPLE | `{"type": "TUPLE", "fields": [description, ...]}` |
| any array or list | `{"type": "LIST", "element": description}` |
| MAP | `{"type": "MAP", "key": description, "value": description}` |
| pickled objects, or no declared type | `{"type": "PICKLED"}` |

Source: org.apache.flink.api.common.typeutils.{TypeSerializerSnapshot,TypeSerializerSchemaCompatibility}. Differs: a
value is converted when the operator requests its state, in every backend. Flink's heap backend converts a value at its
next write.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from flinkpy.common.typeinfo import (
    BasicArrayTypeInfo,
    BasicTypeInfo,
    DateTypeInfo,
    DecimalTypeInfo,
    ExternalTypeInfo,
    ListTypeInfo,
    LocalTimeTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    PickledBytesTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
    TupleTypeInfo,
)
from flinkpy.common.types import Row, row_of

#: The JSON description of a type.
TypeDescription = dict[str, Any]
#: Converts a stored value to the current type.
Conversion = Callable[[Any], Any]

PICKLED: TypeDescription = {"type": "PICKLED"}

#: For each type the wider types, which contain all its values.
_WIDER = {
    "BYTE": ("SHORT", "INT", "LONG"),
    "SHORT": ("INT", "LONG"),
    "INT": ("LONG",),
    "FLOAT": ("DOUBLE",),
}
_TIME_TYPES = {DateTypeInfo: "SQL_DATE", TimeTypeInfo: "SQL_TIME", TimestampTypeInfo: "SQL_TIMESTAMP"}


class IncompatibleTypeError(Exception):
    """The types are not compatible. Callers turn it into a StateMigrationError that names the operator and the state.

    Attributes:
        field: the dotted path of the field; empty for the whole value.
    """

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(reason)
        self.field = field
        self.reason = reason


def describe_type(type_info: Any) -> TypeDescription:
    """Returns the description of a TypeInformation, or of None for any Python object."""
    if type_info is None or isinstance(type_info, PickledBytesTypeInfo):
        return PICKLED
    if isinstance(type_info, ExternalTypeInfo):
        return describe_type(type_info.wrapped_type)
    if isinstance(type_info, DecimalTypeInfo):
        return {"type": "DECIMAL", "precision": type_info.precision, "scale": type_info.scale}
    if isinstance(type_info, BasicTypeInfo):
        return {"type": type_info.basic_type.name}
    if isinstance(type_info, LocalTimeTypeInfo):
        return {"type": type_info.time_type.name}
    if isinstance(type_info, RowTypeInfo):
        fields = zip(type_info.get_field_names(), type_info.get_field_types())
        return {"type": "ROW", "fields": [[name, describe_type(field)] for name, field in fields]}
    if isinstance(type_info, TupleTypeInfo):
        return {"type": "TUPLE", "fields": [describe_type(field) for field in type_info.get_field_types()]}
    if isinstance(type_info, ListTypeInfo | PrimitiveArrayTypeInfo | BasicArrayTypeInfo | ObjectArrayTypeInfo):
        return {"type": "LIST", "element": describe_type(type_info.element_type)}
    if isinstance(type_info, MapTypeInfo):
        return {
            "type": "MAP",
            "key": describe_type(type_info.key_type),
            "value": describe_type(type_info.value_type),
        }
    name = _TIME_TYPES.get(type(type_info))
    if name is not None:
        return {"type": name}
    kind = type(type_info)
    return {"type": "CUSTOM", "class": f"{kind.__module__}.{kind.__qualname__}", "repr": repr(type_info)}


def show_type(description: TypeDescription) -> str:
    """Returns the description as text for messages, such as `ROW<id LONG, name STRING>`."""
    kind = description["type"]
    if kind == "ROW":
        return f"ROW<{', '.join(f'{name} {show_type(field)}' for name, field in description['fields'])}>"
    if kind == "TUPLE":
        return f"TUPLE<{', '.join(map(show_type, description['fields']))}>"
    if kind == "LIST":
        return f"LIST<{show_type(description['element'])}>"
    if kind == "MAP":
        return f"MAP<{show_type(description['key'])}, {show_type(description['value'])}>"
    if kind == "DECIMAL":
        return f"DECIMAL({description['precision']}, {description['scale']})"
    if kind == "CUSTOM":
        return str(description["repr"])
    return str(kind)


def conversion_between(
    stored: TypeDescription,
    wanted: TypeDescription,
    renamed: Mapping[str, str] | None = None,
    defaults: Mapping[str, Any] | None = None,
) -> Conversion | None:
    """Returns the conversion of a value of the type `stored` to the type `wanted`; None if no conversion is needed.

    Args:
        renamed: the old and new names of fields. A field of a nested row is a dotted path. Except for the old name
            itself, the path consists of the current names.
        defaults: the values of new fields by (dotted) name. New fields without a default are None.

    Raises:
        IncompatibleTypeError: the value cannot be converted.
    """
    return _Converter(renamed or {}, defaults or {}).between(stored, wanted, "")


def _holds_decimals(wanted: TypeDescription, stored: TypeDescription) -> bool:
    """True if `wanted` has at least as many digits as `stored` on both sides of the decimal point."""
    more = wanted["scale"] - stored["scale"]
    return more >= 0 and wanted["precision"] - stored["precision"] >= more


class _Converter:
    def __init__(self, renamed: Mapping[str, str], defaults: Mapping[str, Any]) -> None:
        self._renamed = renamed
        self._defaults = defaults

    def between(self, stored: TypeDescription, wanted: TypeDescription, path: str) -> Conversion | None:
        if stored == wanted and not self._renamed:
            return None
        kind, wanted_kind = stored["type"], wanted["type"]
        if kind != wanted_kind:
            if wanted_kind in _WIDER.get(kind, ()):
                return None  # the Python object is the same
            raise IncompatibleTypeError(path, f"was {show_type(stored)} and is {show_type(wanted)} now")
        if kind == "ROW":
            return self._rows(stored["fields"], wanted["fields"], path)
        if kind == "TUPLE":
            return self._tuples(stored["fields"], wanted["fields"], path)
        if kind == "LIST":
            return _of_list(self.between(stored["element"], wanted["element"], path))
        if kind == "MAP":
            if self.between(stored["key"], wanted["key"], path) is not None:
                raise IncompatibleTypeError(path, f"the keys were {show_type(stored)} and are {show_type(wanted)} now")
            return _of_dict(self.between(stored["value"], wanted["value"], path))
        if kind == "DECIMAL" and _holds_decimals(wanted, stored):
            return None
        if stored != wanted:
            raise IncompatibleTypeError(path, f"was {show_type(stored)} and is {show_type(wanted)} now")
        return None

    def _rows(self, stored: list[Any], wanted: list[Any], path: str) -> Conversion | None:
        prefix = f"{path}." if path else ""
        stored_names = [name for name, _ in stored]
        renamed: dict[str, str] = {}
        for old, new in self._renamed.items():
            way, _, name = old.rpartition(".")
            new_name = new.rpartition(".")[2]
            # Values with the new name were written after the renaming.
            if way == path and name in stored_names and new_name not in stored_names:
                if new_name in renamed.values():
                    raise IncompatibleTypeError(prefix + new_name, "two fields are renamed to this name")
                renamed[name] = new_name
        positions = {renamed.get(name, name): position for position, name in enumerate(stored_names)}
        plan: list[tuple[int | None, Any]] = []
        for name, description in wanted:
            position = positions.get(name)
            if position is None:
                plan.append((None, self._defaults.get(prefix + name)))
            else:
                plan.append((position, self.between(stored[position][1], description, prefix + name)))
        names = [name for name, _ in wanted]
        is_same = len(stored) == len(wanted) and all(
            position == at and convert is None for at, (position, convert) in enumerate(plan)
        )
        if is_same and stored_names == names:
            return None
        return _RowConversion(stored_names, names, plan)

    def _tuples(self, stored: list[Any], wanted: list[Any], path: str) -> Conversion | None:
        """Returns the conversion of tuples. Fields have no names, so they are added and removed at the end only."""
        prefix = f"{path}." if path else ""
        converts = [
            self.between(old, new, f"{prefix}f{position}") for position, (old, new) in enumerate(zip(stored, wanted))
        ]
        added = tuple(self._defaults.get(f"{prefix}f{i}") for i in range(len(stored), len(wanted)))
        if len(stored) == len(wanted) and not any(converts):
            return None

        def convert(value: Any) -> Any:
            if value is None:
                return None
            kept = (item if to is None or item is None else to(item) for to, item in zip(converts, value))
            return (*kept, *added)

        return convert


class _RowConversion:
    """Converts rows, and the values that users store as rows: dicts, and sequences in the order of the fields."""

    def __init__(self, stored: list[str], wanted: list[str], plan: list[tuple[int | None, Any]]) -> None:
        self._stored = stored
        self._wanted = wanted
        self._plan = plan

    def __call__(self, value: Any) -> Any:
        if value is None:
            return None
        if isinstance(value, Row):
            names = value._fields
            fields = self._converted(value.get_fields_by_names(self._stored))
            return row_of(fields, None if names is None else self._wanted.copy(), value._row_kind)
        if isinstance(value, dict):
            return dict(zip(self._wanted, self._converted([value.get(name) for name in self._stored])))
        if not isinstance(value, list | tuple):
            raise TypeError(f"a {type(value).__name__} is not a row")
        fields = self._converted(value)
        return fields if isinstance(value, list) else tuple(fields)

    def _converted(self, values: Any) -> list[Any]:
        if len(values) != len(self._stored):
            raise ValueError(f"it has {len(values)} fields instead of {len(self._stored)}")
        result = []
        for position, extra in self._plan:
            if position is None:
                result.append(extra)
            else:
                item = values[position]
                result.append(item if extra is None or item is None else extra(item))
        return result


def _of_list(convert: Conversion | None) -> Conversion | None:
    if convert is None:
        return None
    return lambda values: None if values is None else [convert(value) for value in values]


def _of_dict(convert: Conversion | None) -> Conversion | None:
    if convert is None:
        return None
    return lambda entries: None if entries is None else {key: convert(value) for key, value in entries.items()}
