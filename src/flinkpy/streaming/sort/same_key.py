"""Whether two keys are one, as the hash of keys has it."""

from __future__ import annotations

from typing import Any

from flinkpy.records.key_hash import hash_key


def is_same_key(one: Any, other: Any) -> bool:
    """For keys that are not equal in Python: NaN is not, alone or within a tuple, and is one key all the same."""
    return type(one) is type(other) and _has_nan(one) and _has_nan(other) and hash_key(one) == hash_key(other)


def _has_nan(key: Any) -> bool:
    if isinstance(key, (tuple, list)):
        return any(map(_has_nan, key))
    return bool(key != key)
