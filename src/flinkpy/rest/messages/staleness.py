"""The mark of answers that a service gave some time ago and does not give now."""

from __future__ import annotations

from typing import TypeVar

import msgspec
from msgspec import UNSET, UnsetType


class MayBeStale(msgspec.Struct, kw_only=True):
    """Base class of answers whose values may be old.

    `stale` is there, and true, if the JobMaster does not answer. `age` then tells how old the values are, in ms.
    """

    stale: bool | UnsetType = UNSET
    age: int | UnsetType = UNSET


A = TypeVar("A", bound=MayBeStale)


def marked(answer: A, age_ms: int, allowed_ms: int) -> A:
    """Marks the answer if it is older than a cache may make it, and returns it."""
    if age_ms > allowed_ms:
        answer.stale, answer.age = True, age_ms
    return answer
