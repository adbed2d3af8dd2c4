"""StateMetaInfo: the description of a state that snapshots store, and the conversion of its values on restore.

Source: org.apache.flink.runtime.state.RegisteredKeyValueStateBackendMetaInfo.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from flinkpy.common.errors import StateMigrationError, StateRestoreError
from flinkpy.common.typeinfo import MapTypeInfo, TupleTypeInfo, Types
from flinkpy.state.type_snapshot import (
    PICKLED,
    Conversion,
    IncompatibleTypeError,
    TypeDescription,
    conversion_between,
    describe_type,
)

#: The kinds of keyed state. Only built-in operators use `timers`, `table` and `rows`.
VALUE, LIST, MAP, REDUCING, AGGREGATING = "value", "list", "map", "reducing", "aggregating"
TIMERS, TABLE, ROWS = "timers", "table", "rows"


@dataclass(frozen=True, slots=True)
class StateMetaInfo:
    """The description of a state in a snapshot.

    Attributes:
        kind: value, list, map, reducing, aggregating, timers, table or rows.
        value_type: the type of a value, list element, map value or accumulator, without the time stamp of a
            time-to-live.
        map_key_type: the type of the keys of a map state.
        has_ttl: each value, list element or map value is stored as `(value, time of last access in ms)`.
        table: the key columns and aggregates of a table (`aggregate_table.TableLayout.to_json`), or the columns of a
            table of rows (`row_table.RowLayout.to_json`).
    """

    name: str
    kind: str
    value_type: TypeDescription
    map_key_type: TypeDescription | None = None
    has_ttl: bool = False
    table: dict[str, Any] | None = None

    @staticmethod
    def of(kind: str, descriptor: Any) -> StateMetaInfo:
        """Returns the description of the state that a descriptor requests."""
        type_info = getattr(descriptor, "type_info", None)
        map_key_type = None
        if kind == MAP:
            map_key_type = PICKLED
            if isinstance(type_info, MapTypeInfo):
                map_key_type, type_info = describe_type(type_info.key_type), type_info.value_type
        return StateMetaInfo(
            descriptor.get_name(), kind, describe_type(type_info), map_key_type, ttl_config_of(descriptor) is not None
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "kind": self.kind,
            "value_type": self.value_type,
            "map_key_type": self.map_key_type,
            "has_ttl": self.has_ttl,
            "table": self.table,
        }

    @staticmethod
    def from_json(data: dict[str, Any]) -> StateMetaInfo:
        if not isinstance(data["name"], str) or not isinstance(data["kind"], str):
            raise TypeError("the name or kind of a state is not a string")
        return StateMetaInfo(
            data["name"],
            data["kind"],
            data["value_type"],
            data.get("map_key_type"),
            data.get("has_ttl", False),
            data.get("table"),
        )


def ttl_config_of(descriptor: Any) -> Any | None:
    """Returns the StateTtlConfig of a descriptor if it is enabled."""
    config = getattr(descriptor, "ttl_config", None)
    return config if config is not None and config.is_enabled() else None


def stored_type(kind: str, descriptor: Any) -> Any:
    """Returns the TypeInformation of a stored value, list element or map value; None for any object."""
    type_info = getattr(descriptor, "type_info", None)
    if kind == MAP and isinstance(type_info, MapTypeInfo):
        type_info = type_info.value_type
    if type_info is not None and ttl_config_of(descriptor) is not None:
        return TupleTypeInfo([type_info, Types.LONG()])
    return type_info


def element_conversion(
    stored: StateMetaInfo, wanted: StateMetaInfo, descriptor: Any, operator_name: str, now_ms: Callable[[], int]
) -> Conversion | None:
    """Returns the conversion of a stored value, list element or map value to the format of `wanted`.

    Returns None if no conversion is needed. If time-to-live was enabled since, the life of each value starts now. If it
    was disabled, the time stamps are dropped.

    Args:
        descriptor: may have `renamed_fields` and `field_defaults`, which the conversion applies.

    Raises:
        StateRestoreError: the stored state is of another kind.
        StateMigrationError: the types are not compatible.
    """
    state = f"operator {operator_name!r}, state {stored.name!r}"
    details = {"operator": operator_name, "state": stored.name}
    if stored.kind != wanted.kind:
        raise StateRestoreError(
            f"{state}: it was stored as a {stored.kind} state and is requested as a {wanted.kind} state",
            details=details,
        )
    renamed = getattr(descriptor, "renamed_fields", None)
    defaults = getattr(descriptor, "field_defaults", None)
    try:
        if stored.map_key_type != wanted.map_key_type:
            _check_map_keys(stored.map_key_type or PICKLED, wanted.map_key_type or PICKLED)
        convert = conversion_between(stored.value_type, wanted.value_type, renamed, defaults)
    except IncompatibleTypeError as error:
        field = f", field {error.field!r}" if error.field else ""
        raise StateMigrationError(
            f"{state}{field}: {error.reason}; the stored values cannot be converted",
            details={**details, "field": error.field},
        ) from None
    if convert is not None:
        convert = _guarded(convert, state, details)
    return _with_time_stamps(stored.has_ttl, wanted.has_ttl, convert, now_ms)


def _guarded(convert: Conversion, state: str, details: dict[str, str]) -> Conversion:
    """Returns the conversion with a typed error.

    States store values as they are given, so a value may not match its declared type.
    """

    def guarded(value: Any) -> Any:
        try:
            return convert(value)
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise StateMigrationError(
                f"{state}: the stored value {value!r:.200} does not match its declared type: {error}",
                details=details,
            ) from error

    return guarded


def _check_map_keys(stored: TypeDescription, wanted: TypeDescription) -> None:
    try:
        convert = conversion_between(stored, wanted)
    except IncompatibleTypeError as error:
        raise IncompatibleTypeError(error.field, f"the key of the map {error.reason}") from None
    if convert is not None:
        raise IncompatibleTypeError("", "the key of the map now has other fields")


def _with_time_stamps(had: bool, has: bool, convert: Conversion | None, now_ms: Callable[[], int]) -> Conversion | None:
    to = convert or _same
    if had and has:
        return None if convert is None else lambda stamped: (to(stamped[0]), stamped[1])
    if has:
        return lambda value: (to(value), now_ms())
    if had:
        return lambda stamped: to(stamped[0])
    return convert


def _same(value: Any) -> Any:
    return value


def key_conversion_is_possible(stored: TypeDescription | None, wanted: TypeDescription | None) -> bool:
    """True if keys of the type `stored` can be read as keys of the type `wanted`.

    An undeclared type fits every type, because the hash of a key does not depend on the declaration.
    """
    if stored is None or wanted is None or PICKLED in (stored, wanted):
        return True
    try:
        return conversion_between(stored, wanted) is None
    except IncompatibleTypeError:
        return False


def layout_conversion(kind: str, convert: Conversion | None) -> Conversion | None:
    """Returns the conversion of a key's whole entry in a state, given the conversion of one element."""
    if convert is None:
        return None
    if kind == LIST:
        return lambda values: [convert(value) for value in values]
    if kind == MAP:
        return lambda entries: {key: convert(value) for key, value in entries.items()}
    return convert
