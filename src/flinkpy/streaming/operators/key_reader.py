"""KeyReader: the keys of records, as state, timers and windows know them."""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import Any

from flinkpy.graph.operator_specs import FieldKeySelector
from flinkpy.records.declared_keys import as_declared, plain_class
from flinkpy.records.key_identity import one_type, state_keys
from flinkpy.records.key_selection import picker_of, select_keys


class KeyReader:
    """Calling it with records gives the state key of each (`records.key_identity`).

    All keys of a batch are read before its first record is processed: a look at the types of a whole batch costs less
    than a call per record, so keys that are `int` or `str` pay nothing.

    Args:
        key_type: TypeInformation that was declared for the key; None: any key.

    Raises:
        TypeMismatchError: a key is of a type that cannot be one, or does not fit `key_type`. Other errors are those of
            the key selector.
    """

    __slots__ = ("_get_key", "_key_type", "_pick", "_plain_type")

    def __init__(self, key_selector: Any, key_type: Any = None) -> None:
        self._get_key: Callable[[Any], Any] = key_selector.get_key
        is_fields = isinstance(key_selector, FieldKeySelector)
        self._pick = itemgetter(*key_selector.fields) if is_fields else picker_of(self._get_key)
        self._key_type = key_type
        self._plain_type = plain_class(key_type)

    def __call__(self, rows: list[Any]) -> list[Any]:
        keys = select_keys(self._get_key, self._pick, rows)
        # One look at the types says both that the keys are as declared and that they stand for themselves.
        if self._plain_type is not None and one_type(keys) is self._plain_type:
            return keys
        return state_keys(as_declared(keys, self._key_type))
