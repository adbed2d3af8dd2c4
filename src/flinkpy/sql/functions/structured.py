"""OBJECT_OF and OBJECT_UPDATE: values of structured types.

Source: org.apache.flink.table.types.inference.strategies.{ObjectOfInputTypeStrategy, ObjectOfTypeStrategy,
ObjectUpdateInputTypeStrategy, ObjectUpdateTypeStrategy}.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from flinkpy.common.errors import ValidationError
from flinkpy.sql.functions.definition import NOT_LITERAL, Inference
from flinkpy.sql.functions.kernel_call import KernelCall, as_array
from flinkpy.sql.functions.registry import scalar
from flinkpy.sql.types import logical_types as lt

_TEXTS = (lt.CharType, lt.VarCharType)


def _object_type(call: Inference) -> lt.LogicalType:
    name = call.literals[0]
    if not isinstance(call.types[0], _TEXTS) or name is NOT_LITERAL or name is None:
        raise ValidationError(
            "The first argument must be a non-nullable character string literal representing the class name."
        )
    fields = _fields(call)
    return lt.StructuredType(tuple(lt.RowField(key, kind) for key, kind in fields.items()), name)


def _fields(call: Inference) -> dict[str, lt.LogicalType]:
    """Returns the types of the values behind the first argument by their names."""
    if len(call.types) % 2 == 0:
        raise ValidationError(f"{call.name} needs a value for each field key: the number of its arguments is odd.")
    found: dict[str, lt.LogicalType] = {}
    for place in range(1, len(call.types), 2):
        key = call.literals[place]
        if not isinstance(call.types[place], _TEXTS) or key is NOT_LITERAL or key is None:
            raise ValidationError(f"The field key at position {place + 1} must be a non-null character string literal.")
        if key in found:
            raise ValidationError(f"The field name '{key}' at position {place + 1} is repeated.")
        found[key] = call.types[place + 1]
    return found


@scalar("OBJECT_OF", "ANY, ANY*...", returns=_object_type, null_if_null=False)
def object_of(call: KernelCall, *values: Any) -> Any:
    fields = list(call.arrow_type)
    return pa.StructArray.from_arrays(_typed(call, values[2::2], range(len(fields))), fields=fields)


def _updated_type(call: Inference) -> lt.LogicalType:
    before = call.types[0]
    if not isinstance(before, lt.StructuredType):
        raise ValidationError(f"The first argument must be a structured type, but was {before}.")
    changed = _fields(call)
    for place, name in enumerate(changed):
        if name not in before.names:
            raise ValidationError(
                f"The field name '{name}' at position {2 * place + 2} is not part of the structured type attributes. "
                f"Available attributes: [{', '.join(before.names)}]."
            )
    fields = tuple(lt.RowField(each.name, changed.get(each.name, each.type)) for each in before.fields)
    return lt.StructuredType(fields, before.class_name)


@scalar("OBJECT_UPDATE", "ANY, ANY, ANY, ANY*...", returns=_updated_type, null_if_null=False)
def object_update(call: KernelCall, *values: Any) -> Any:
    array = as_array(values[0], call.num_rows)
    kind = call.type
    assert isinstance(kind, lt.StructuredType)
    fields = array.flatten()
    # The keys are literals, so that they are equal in all rows.
    keys = [each.as_py() if isinstance(each, pa.Scalar) else each[0].as_py() for each in values[1::2]]
    places = [kind.names.index(key) for key in keys]
    for place, value in zip(places, _typed(call, values[2::2], places), strict=True):
        fields[place] = value
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(fields, fields=list(call.arrow_type), mask=mask)


def _typed(call: KernelCall, values: tuple[Any, ...], places: Any) -> list[pa.Array]:
    """Returns values as columns with the types of fields of the result."""
    fields = list(call.arrow_type)
    arrays = [as_array(value, call.num_rows) for value in values]
    return [each if each.type == fields[p].type else each.cast(fields[p].type) for each, p in zip(arrays, places)]
