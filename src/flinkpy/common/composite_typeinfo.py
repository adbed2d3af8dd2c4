"""Composite types: rows, tuples, arrays, lists, sets, maps, enums and pickled objects."""

from __future__ import annotations

from enum import Enum
from typing import Any

from flinkpy.common.basic_typeinfo import TypeInformation
from flinkpy.common.types import Row


class _ElementTypeInfo(TypeInformation):
    def __init__(self, element_type: TypeInformation) -> None:
        super().__init__()
        self._element_type = element_type

    @property
    def element_type(self) -> TypeInformation:
        return self._element_type

    def _key(self) -> tuple[Any, ...]:
        return (self._element_type,)

    def __repr__(self) -> str:
        return f"{type(self).__name__}<{self._element_type}>"


class PrimitiveArrayTypeInfo(_ElementTypeInfo):
    """An array of numbers or booleans; an array of BYTE is `bytes`."""


class BasicArrayTypeInfo(_ElementTypeInfo):
    """An array of a basic type."""


class ObjectArrayTypeInfo(_ElementTypeInfo):
    """An array of any type."""


class PickledBytesTypeInfo(TypeInformation):
    """Any Python object; it is pickled when it leaves the process."""

    def __repr__(self) -> str:
        return "PickledByteArrayTypeInfo"


class RowTypeInfo(TypeInformation):
    """A `Row` of named fields; the default names are f0, f1, ...."""

    def __init__(self, field_types: list[TypeInformation], field_names: list[str] | None = None) -> None:
        super().__init__()
        _check_types(field_types)
        self._has_default_names = field_names is None
        if field_names is None:
            field_names = [f"f{position}" for position in range(len(field_types))]
        if len(field_names) != len(field_types):
            raise ValueError(f"{len(field_types)} field types but {len(field_names)} field names")
        if len(set(field_names)) != len(field_names):
            raise ValueError(f"field names must be distinct: {field_names}")
        self._field_types = list(field_types)
        self._field_names = list(field_names)

    def get_field_names(self) -> list[str]:
        return self._field_names

    def get_field_index(self, field_name: str) -> int:
        """Returns the position of the field.

        Raises:
            ValueError: there is no field of this name.
        """
        if field_name not in self._field_names:
            raise ValueError(f"there is no field {field_name!r} in {self!r}")
        return self._field_names.index(field_name)

    def get_field_types(self) -> list[TypeInformation]:
        return self._field_types

    def need_conversion(self) -> bool:
        return True

    def to_internal_type(self, obj: Any) -> Any:
        """Returns a tuple of the fields' internal values."""
        if obj is None:
            return None
        if isinstance(obj, dict):
            values: Any = [obj.get(name) for name in self._field_names]
        elif isinstance(obj, Row):
            values = obj.get_fields_by_names(self._field_names)
        else:
            values = obj
        return tuple(
            field.to_internal_type(value) if value is not None and field.need_conversion() else value
            for field, value in zip(self._field_types, values, strict=True)
        )

    def from_internal_type(self, obj: Any) -> Any:
        if obj is None:
            return None
        row = Row(
            *(
                field.from_internal_type(value) if value is not None and field.need_conversion() else value
                for field, value in zip(self._field_types, obj, strict=True)
            )
        )
        row.set_field_names(self._field_names)
        return row

    def _key(self) -> tuple[Any, ...]:
        return (tuple(self._field_names), tuple(self._field_types))

    def __repr__(self) -> str:
        if self._has_default_names:
            return f"RowTypeInfo({', '.join(map(repr, self._field_types))})"
        fields = ", ".join(f"{name}: {field}" for name, field in zip(self._field_names, self._field_types))
        return f"RowTypeInfo({fields})"


class TupleTypeInfo(TypeInformation):
    """A Python tuple with one type per position."""

    def __init__(self, field_types: list[TypeInformation]) -> None:
        super().__init__()
        _check_types(field_types)
        self._field_types = list(field_types)

    def get_field_types(self) -> list[TypeInformation]:
        return self._field_types

    def need_conversion(self) -> bool:
        return True

    def to_internal_type(self, obj: Any) -> Any:
        if obj is None:
            return None
        return tuple(
            field.to_internal_type(value) if value is not None and field.need_conversion() else value
            for field, value in zip(self._field_types, obj, strict=True)
        )

    def from_internal_type(self, obj: Any) -> Any:
        if obj is None:
            return None
        return tuple(
            field.from_internal_type(value) if value is not None and field.need_conversion() else value
            for field, value in zip(self._field_types, obj, strict=True)
        )

    def _key(self) -> tuple[Any, ...]:
        return tuple(self._field_types)

    def __repr__(self) -> str:
        return f"TupleTypeInfo({', '.join(map(repr, self._field_types))})"


class ListTypeInfo(_ElementTypeInfo):
    """A Python list whose elements have one type."""


class SetTypeInfo(_ElementTypeInfo):
    """A Python set whose elements have one type. Beyond PyFlink (Java's `Types.SET`)."""


class EnumTypeInfo(TypeInformation):
    """Members of an `enum.Enum`, stored by name. Beyond PyFlink (Java's `Types.ENUM`)."""

    def __init__(self, enum_class: type[Enum]) -> None:
        super().__init__()
        if not isinstance(enum_class, type) or not issubclass(enum_class, Enum):
            raise TypeError(f"an enum.Enum class is needed, not {enum_class!r}")
        self._enum_class = enum_class

    @property
    def enum_class(self) -> type[Enum]:
        return self._enum_class

    def _key(self) -> tuple[Any, ...]:
        return (self._enum_class,)

    def __repr__(self) -> str:
        return f"EnumTypeInfo<{self._enum_class.__qualname__}>"


class EitherTypeInfo(TypeInformation):
    """An `Either` of two types. Beyond PyFlink (Java's `Types.EITHER`)."""

    def __init__(self, left_type: TypeInformation, right_type: TypeInformation) -> None:
        super().__init__()
        _check_types((left_type, right_type))
        self._left_type = left_type
        self._right_type = right_type

    @property
    def left_type(self) -> TypeInformation:
        return self._left_type

    @property
    def right_type(self) -> TypeInformation:
        return self._right_type

    def _key(self) -> tuple[Any, ...]:
        return (self._left_type, self._right_type)

    def __repr__(self) -> str:
        return f"EitherTypeInfo<{self._left_type}, {self._right_type}>"


class MapTypeInfo(TypeInformation):
    """A Python dict whose keys have one type and whose values have one type."""

    def __init__(self, key_type_info: TypeInformation, value_type_info: TypeInformation) -> None:
        super().__init__()
        self._key_type_info = key_type_info
        self._value_type_info = value_type_info

    @property
    def key_type(self) -> TypeInformation:
        return self._key_type_info

    @property
    def value_type(self) -> TypeInformation:
        return self._value_type_info

    def _key(self) -> tuple[Any, ...]:
        return (self._key_type_info, self._value_type_info)

    def __repr__(self) -> str:
        return f"MapTypeInfo<{self._key_type_info}, {self._value_type_info}>"


class ExternalTypeInfo(TypeInformation):
    """Wraps the type of a record of the Table API."""

    def __init__(self, type_info: TypeInformation) -> None:
        super().__init__()
        self._type_info = type_info

    @property
    def wrapped_type(self) -> TypeInformation:
        return self._type_info

    def _key(self) -> tuple[Any, ...]:
        return (self._type_info,)

    def __repr__(self) -> str:
        return f"ExternalTypeInfo<{self._type_info}>"


def _check_types(field_types: Any) -> None:
    for position, field in enumerate(field_types):
        if not isinstance(field, TypeInformation):
            raise TypeError(f"field {position}: {field!r} is not a TypeInformation (use Types.STRING(), ...)")
