"""Compaction: many regions of a partition file become few, before anybody reads it.

A partition with many subpartitions that was written with little memory has many regions with short runs: a consumer
would read it in small pieces from all over the file. So consecutive regions are merged: what each subpartition has in
them, one after the other, becomes one run. Frames are copied as they are.

The old file is read in passes, each for as many neighbouring subpartitions as fit into the memory given: what they have
in a region lies together, so each pass goes through the file once, forward. While it works both files are on the disk;
where there is no room for that the partition stays as it is.

Differs: Flink leaves the regions as they were written.
"""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import numpy as np

from flinkpy.network.blocking.partition_file import PartitionFileWriter, PartitionIndex, Region

#: Runs that are this long on average are read well as they are.
GOOD_RUN_BYTES = 1 << 16
#: With fewer regions each consumer reads few pieces anyway.
MIN_REGIONS = 8


def needs_compaction(index: PartitionIndex) -> bool:
    """Whether merging regions would make the file better to read."""
    unicast = [region for region in index.regions if not region.is_broadcast]
    if len(unicast) < MIN_REGIONS:
        return False
    size = sum(int(region.offsets[-1] - region.offsets[0]) for region in unicast)
    return size < GOOD_RUN_BYTES * len(unicast) * index.num_subpartitions


def compact(path: Path, index: PartitionIndex, partition_id: str, memory_bytes: int) -> PartitionIndex:
    """Replace the data file by one with merged regions; returns its index.

    Raises:
        PartitionWriteError, OSError: the old file is as it was.
    """
    target = path.with_name(path.name + ".merged")
    merged = PartitionIndex(index.num_subpartitions, schemas=index.schemas)
    source = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        writer = PartitionFileWriter(target, partition_id)
        try:
            for is_broadcast, regions in itertools.groupby(index.regions, key=lambda region: region.is_broadcast):
                if is_broadcast:
                    for region in regions:
                        merged.regions.append(_copied(source, region, writer))
                else:
                    merged.regions.append(_merged(source, list(regions), writer, memory_bytes))
            writer.flush()
            os.replace(target, path)
        finally:
            writer.close()
            target.unlink(missing_ok=True)
    finally:
        os.close(source)
    merged.data_bytes = writer.position
    return merged


def _copied(source: int, region: Region, writer: PartitionFileWriter) -> Region:
    begin, end = region.extent(0, 1)
    offset = writer.position
    for position in range(begin, end, 1 << 20):
        data = _read(source, position, min(1 << 20, end - position))
        writer.append([data], len(data))
    return Region(True, np.array([offset, writer.position], np.int64))


def _merged(source: int, regions: list[Region], writer: PartitionFileWriter, memory_bytes: int) -> Region:
    starts = np.stack([region.offsets for region in regions])  # [regions, subpartitions + 1]
    sizes = np.diff(starts, axis=1).sum(axis=0)
    offsets = writer.position + np.concatenate([[0], np.cumsum(sizes)])
    count = len(sizes)
    first = 0
    while first < count:
        held = np.cumsum(sizes[first:])
        last = first + max(1, int(np.searchsorted(held, memory_bytes, side="right")))
        parts = [memoryview(_read(source, int(own[first]), int(own[last] - own[first]))) for own in starts]
        for subpartition in range(first, last):
            for own, data in zip(starts, parts, strict=True):
                begin, end = int(own[subpartition] - own[first]), int(own[subpartition + 1] - own[first])
                if begin < end:
                    writer.append([data[begin:end]], end - begin)
        writer.flush()
        first = last
    return Region(False, offsets.astype(np.int64))


def _read(source: int, offset: int, size: int) -> bytes:
    """Raises: OSError also where the file ends before."""
    pieces = []
    while size:
        piece = os.pread(source, size, offset)
        if not piece:
            raise OSError(0, f"the file ends at {offset}")
        pieces.append(piece)
        offset += len(piece)
        size -= len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)
