"""What to call for the key of a record."""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import Any

from flinkpy.graph.operator_specs import FieldKeySelector


def key_getter(key_selector: Any) -> Callable[[Any], Any]:
    """value -> key; picking fields takes no Python call."""
    if isinstance(key_selector, FieldKeySelector):
        return itemgetter(*key_selector.fields)
    get_key: Callable[[Any], Any] = key_selector.get_key
    return get_key
