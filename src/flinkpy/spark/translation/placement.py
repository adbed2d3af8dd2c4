"""Moves rows to the partition whose number they have. Partition i is subtask i.

Spark 4.1 has `repartitionById`. Older releases can only partition by the hash of a column. For them the number of the
partition is replaced by an integer whose hash is that number. The hash, Murmur3 with seed 42, cannot change, because
all releases read tables that are bucketed by it.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_MASK = 0xFFFFFFFF
_SEED = 42
_PLACE_COLUMN = "__place"


def place(frame: DataFrame, column: str, num_partitions: int) -> DataFrame:
    """Moves each row to its partition.

    Args:
        column: the name of the int column with the number of the partition.
    """
    if num_partitions == 1:
        return frame.repartition(1)
    if has_repartition_by_id(frame.sparkSession.version):
        return frame.repartitionById(num_partitions, F.col(column))
    places = F.array(*[F.lit(value) for value in values_of_partitions(num_partitions)])
    placed = frame.withColumn(_PLACE_COLUMN, places[F.col(column)])
    return placed.repartition(num_partitions, F.col(_PLACE_COLUMN)).drop(_PLACE_COLUMN)


def has_repartition_by_id(version: str) -> bool:
    """Returns True if this version of Spark has `repartitionById`."""
    major, minor, *_ = version.split(".")
    return (int(major), int(minor)) >= (4, 1)


@cache
def values_of_partitions(num_partitions: int) -> tuple[int, ...]:
    """Returns an int for each partition that Spark's hash partitioning puts there."""
    found: dict[int, int] = {}
    value = 0
    while len(found) < num_partitions:
        found.setdefault(_murmur3_of_int(value) % num_partitions, value)
        value += 1
    return tuple(found[partition] for partition in range(num_partitions))


def _murmur3_of_int(value: int) -> int:
    """Returns `hash(value)` of Spark SQL for an int, as a signed number."""
    word = _rotated(value * 0xCC9E2D51 & _MASK, 15) * 0x1B873593 & _MASK
    state = (_rotated(_SEED ^ word, 13) * 5 + 0xE6546B64) & _MASK
    state ^= 4  # bytes
    state = (state ^ state >> 16) * 0x85EBCA6B & _MASK
    state = (state ^ state >> 13) * 0xC2B2AE35 & _MASK
    state ^= state >> 16
    return state - (1 << 32) if state >> 31 else state


def _rotated(word: int, bits: int) -> int:
    return (word << bits | word >> 32 - bits) & _MASK
