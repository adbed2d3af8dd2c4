"""KeyReader: reads the keys of records in the form that state, timers and windows use."""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import Any

from flinkpy.graph.operator_specs import FieldKeySelector
from flinkpy.records.declared_keys import as_declared, plain_class
from flinkpy.records.key_identity import one_type, state_keys
from flinkpy.records.key_selection import picker_of, select_keys


class KeyReader:
    """Returns the state key of each record (`records.key_identity`) when it is called with records.

    It reads all keys of a batch before the first record is processed. One check of the types of a whole batch costs
    less than a call per record, so keys that are `int` or `str` cost nothing extra.

    Args:
        key_type: the declared TypeInformation of the key; None allows any key.

    Raises:
        TypeMismatchError: the type of a key is not allowed for keys, or does not fit `key_type`. Errors of the key
            selector are raised as they are.
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
        # One check of the types shows that the keys have the declared type and are their own state keys.
        if self._plain_type is not None and one_type(keys) is self._plain_type:
            return keys
        return state_keys(as_declared(keys, self._key_type))
