"""Checks the arguments that users pass to the operations of a stream, and wraps plain callables."""

from __future__ import annotations

from operator import itemgetter
from typing import Any

from flinkpy.common.typeinfo import (
    BasicArrayTypeInfo,
    BasicType,
    BasicTypeInfo,
    EitherTypeInfo,
    EnumTypeInfo,
    ExternalTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    PickledBytesTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    SetTypeInfo,
    TupleTypeInfo,
    TypeInformation,
)
from flinkpy.functions.function import Function
from flinkpy.functions.stream_functions import (
    FilterFunction,
    FilterFunctionWrapper,
    FlatMapFunction,
    FlatMapFunctionWrapper,
    FunctionWrapper,
    JoinFunction,
    JoinFunctionWrapper,
    KeySelector,
    KeySelectorFunctionWrapper,
    MapFunction,
    MapFunctionWrapper,
    MapPartitionFunction,
    MapPartitionFunctionWrapper,
    Partitioner,
    PartitionerFunctionWrapper,
    ReduceFunction,
    ReduceFunctionWrapper,
)
from flinkpy.graph.operator_specs import FieldKeySelector


def map_function(func: Any) -> MapFunction:
    return _wrapped(func, MapFunction, MapFunctionWrapper, "The input must be a MapFunction or a callable function")


def flat_map_function(func: Any) -> FlatMapFunction:
    message = "The input must be a FlatMapFunction or a callable function"
    return _wrapped(func, FlatMapFunction, FlatMapFunctionWrapper, message)


def filter_function(func: Any) -> FilterFunction:
    message = "The input must be a FilterFunction or a callable function"
    return _wrapped(func, FilterFunction, FilterFunctionWrapper, message)


def reduce_function(func: Any) -> ReduceFunction:
    message = "The input must be a ReduceFunction or a callable function"
    return _wrapped(func, ReduceFunction, ReduceFunctionWrapper, message)


def join_function(func: Any) -> JoinFunction:
    return _wrapped(func, JoinFunction, JoinFunctionWrapper, "The input must be a JoinFunction or a callable function")


def map_partition_function(func: Any) -> MapPartitionFunction:
    message = "The input must be a MapPartitionFunction or a callable function"
    return _wrapped(func, MapPartitionFunction, MapPartitionFunctionWrapper, message)


def partitioner_function(func: Any) -> Partitioner:
    message = "Parameter partitioner should be type of Partitioner or a callable function."
    return _wrapped(func, Partitioner, PartitionerFunctionWrapper, message)


#: Types that cannot be keys, alone or within a ROW or TUPLE. Bytes can.
_NO_KEYS = (
    BasicArrayTypeInfo,
    EitherTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    PrimitiveArrayTypeInfo,
    SetTypeInfo,
)
_KEY_MESSAGE = "Parameter key_selector should be type of KeySelector or a callable function."


def key_selector(selector: Any, input_type: TypeInformation | None) -> KeySelector | FieldKeySelector:
    """Returns a selector object: a FieldKeySelector for the name or position of a field, or a tuple or list of them.

    Raises:
        TypeError: it is neither that nor a function, or the stream's type has no such field.
    """
    if isinstance(selector, FieldKeySelector):
        return selector
    if isinstance(selector, (str, int)) and not isinstance(selector, bool):
        return _field_selector((selector,), input_type)
    if isinstance(selector, (tuple, list)) and selector:
        return _field_selector(tuple(selector), input_type)
    return _wrapped(selector, KeySelector, KeySelectorFunctionWrapper, _KEY_MESSAGE)


def key_type_of(selector: Any, key_type: Any, input_type: TypeInformation | None) -> TypeInformation | None:
    """Returns the declared key type, or that of the key's fields; None if keys are pickled.

    Raises:
        TypeError: values of that type cannot be keys, or the fields are of another type.
    """
    declared = output_type_of(key_type)
    if declared is not None:
        _check_is_key_type(declared)
    columns = columns_of_type(input_type) if isinstance(selector, FieldKeySelector) else None
    if columns is None:
        return declared
    types = [field_type(columns, field) for field in selector.fields]
    of_fields = types[0] if len(types) == 1 else TupleTypeInfo(types)
    _check_is_key_type(of_fields)
    if declared is not None and declared != of_fields:
        raise TypeError(
            f"key_by: the fields {list(selector.fields)} of the stream are {of_fields!r}, but the declared key type is "
            f"{declared!r}: omit the type, or use a function that returns the key"
        )
    return of_fields


def _check_is_key_type(key_type: TypeInformation) -> None:
    """Refuses types whose values are mutable or have no hash. Source: KeyedStream.validateKeyType."""
    if isinstance(key_type, (RowTypeInfo, TupleTypeInfo)):
        for field in key_type.get_field_types():
            _check_is_key_type(field)
    elif isinstance(key_type, ExternalTypeInfo):
        _check_is_key_type(key_type.wrapped_type)
    elif isinstance(key_type, _NO_KEYS) and not _is_bytes(key_type):
        raise TypeError(f"key_by: {key_type!r} cannot be the type of a key: its values are mutable or have no hash")


def _is_bytes(type_info: TypeInformation) -> bool:
    if not isinstance(type_info, PrimitiveArrayTypeInfo):
        return False
    element = type_info.element_type
    return isinstance(element, BasicTypeInfo) and element.basic_type is BasicType.BYTE


def output_type_of(type_info: Any) -> TypeInformation | None:
    """Returns a declared type as specs hold it: a list of types as a ROW, None and PICKLED_BYTE_ARRAY as None."""
    if type_info is None or isinstance(type_info, PickledBytesTypeInfo):
        return None
    if isinstance(type_info, list):
        return RowTypeInfo(type_info)
    if not isinstance(type_info, TypeInformation):
        raise TypeError(f"a type must be a TypeInformation (use Types.STRING(), ...), not {type_info!r}")
    return type_info


def columns_of_type(type_info: TypeInformation | None) -> dict[str, TypeInformation] | None:
    """Returns the types of the columns of a ROW or TUPLE type by name; None for other types."""
    if isinstance(type_info, RowTypeInfo):
        return dict(zip(type_info.get_field_names(), type_info.get_field_types()))
    if isinstance(type_info, TupleTypeInfo):
        return {f"f{position}": field for position, field in enumerate(type_info.get_field_types())}
    return None


def field_type(columns: dict[str, TypeInformation], field: int | str) -> TypeInformation:
    return columns[field] if isinstance(field, str) else list(columns.values())[field]


def check_position(what: str, position: Any, type_info: TypeInformation | None) -> int | str:
    """Returns the position or name of a field that the stream's type has. `"f1"` of a TUPLE becomes 1.

    Raises:
        TypeError, ValueError: it is neither, or there is no such field.
    """
    if isinstance(position, bool) or not isinstance(position, (int, str)):
        raise TypeError(
            f"The field position must be of int or str type to locate the value to calculate for {what}."
            f"The given type is: {type(position)}"
        )
    columns = columns_of_type(type_info)
    if columns is None:
        if isinstance(type_info, BasicTypeInfo):
            raise TypeError(f"{what}: the stream is of {type_info!r}; only a TUPLE or ROW has fields")
        return position
    names = list(columns)
    if isinstance(position, str):
        if position not in columns:
            raise ValueError(f"{what}: the stream has no field {position!r}, only {names}")
        return names.index(position) if isinstance(type_info, TupleTypeInfo) else position
    if not 0 <= position < len(names):
        raise ValueError(f"{what}: the stream has no field {position}, only {len(names)} fields")
    return position


def check_aggregated_position(what: str, position: Any, type_info: TypeInformation | None) -> int | str:
    """Checks a position as `check_position` does. A stream of a basic type has one field at 0, the value itself."""
    if isinstance(type_info, BasicTypeInfo) and isinstance(position, (int, str)):
        if position != 0:
            raise TypeError(
                f"The {position} field selected on a basic type. A field expression on a basic type can only select "
                "the 0th field (which means selecting the entire basic type)."
            )
        return 0
    return check_position(what, position, type_info)


def _field_selector(fields: tuple[Any, ...], input_type: TypeInformation | None) -> KeySelector | FieldKeySelector:
    if any(isinstance(field, bool) or not isinstance(field, (int, str)) for field in fields):
        raise TypeError(_KEY_MESSAGE)
    checked = tuple(check_position("key_by", field, input_type) for field in fields)
    columns = columns_of_type(input_type)
    if columns is not None:
        for field in checked:
            if isinstance(field_type(columns, field), (EitherTypeInfo, EnumTypeInfo, SetTypeInfo)):
                # The column holds less than the object, so both would not be the same key.
                raise TypeError(f"key_by: field {field!r} cannot be a key itself; use a function that returns the key")
        if any(_holds_objects(field_type(columns, field)) for field in checked):
            # Equal objects may differ in their columns: two pickles of one object may have different bytes.
            return KeySelectorFunctionWrapper(itemgetter(*checked))
    return FieldKeySelector(checked)


def _holds_objects(type_info: TypeInformation) -> bool:
    """Returns True if the column holds a pickle or the name of an object instead of the value."""
    if isinstance(type_info, (RowTypeInfo, TupleTypeInfo)):
        return any(map(_holds_objects, type_info.get_field_types()))
    return isinstance(type_info, (PickledBytesTypeInfo, EnumTypeInfo))


def _wrapped(func: Any, kind: type[Function], wrapper: type[FunctionWrapper], message: str) -> Any:
    if isinstance(func, kind):
        return func
    if isinstance(func, type) and issubclass(func, Function):
        raise TypeError(f"{message}, not the class {func.__qualname__} itself (are its parentheses missing?)")
    if not callable(func):
        raise TypeError(message)
    return wrapper(func)
