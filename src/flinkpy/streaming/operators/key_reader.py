"""KeyReader: the keys of records, as state, timers and windows know them."""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import Any

from flinkpy.graph.operator_specs import FieldKeySelector
from flinkpy.records.declared_keys import as_declared
from flinkpy.records.key_identity import state_keys


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

    __slots__ = ("_get_fields", "_get_key", "_key_type")

    def __init__(self, key_selector: Any, key_type: Any = None) -> None:
        self._get_key: Callable[[Any], Any] = key_selector.get_key
        is_fields = isinstance(key_selector, FieldKeySelector)
        self._get_fields = itemgetter(*key_selector.fields) if is_fields else None
        self._key_type = key_type

    def __call__(self, rows: list[Any]) -> list[Any]:
        get_key = self._get_key
        # A Python function is called faster from a loop of Python's than from `map`; fields take no call of Python's.
        keys = [get_key(row) for row in rows] if self._get_fields is None else list(map(self._get_fields, rows))
        return state_keys(as_declared(keys, self._key_type))
