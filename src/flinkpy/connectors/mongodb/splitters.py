"""Divides a collection into ranges of keys that are read in parallel.

Source: org.apache.flink.connector.mongodb.source.enumerator.splitter.{MongoSplitters, MongoSampleSplitter,
MongoSplitVectorSplitter, MongoShardedSplitter, MongoPaginationSplitter, PartitionStrategy}. Differs: the default
strategy takes samples where the server does not have the command splitVector.
"""

from __future__ import annotations

import itertools
import logging
import math
from dataclasses import dataclass
from typing import Any

from flinkpy.common.errors import MongoError
from flinkpy.connectors.mongodb.client import ID, MongoConnectionOptions, load_pymongo

_LOG = logging.getLogger(__name__)

STRATEGIES = ("default", "single", "sample", "split-vector", "sharded", "pagination")
#: Unauthorized and CommandNotFound.
_NO_SPLIT_VECTOR = (13, 59)
_MB = 1 << 20


@dataclass(frozen=True, slots=True)
class MongoScanSourceSplit:
    """A range of keys of a collection.

    Attributes:
        lower, upper: the bounds as (field, value); the upper one is outside. None: the range has no such end.
        hint: the index whose order the bounds have, as (field, direction).
        rows_done: the documents at the start of the range that have been emitted.
    """

    split_id: str
    lower: tuple[tuple[str, Any], ...] | None = None
    upper: tuple[tuple[str, Any], ...] | None = None
    hint: tuple[tuple[str, Any], ...] = ((ID, 1),)
    rows_done: int = 0


@dataclass(frozen=True, slots=True)
class MongoReadOptions:
    """How a collection is divided and read.

    Attributes:
        fetch_size: the documents of an answer.
        no_cursor_timeout: True to keep cursors that are not used for ten minutes.
        partition_size_bytes: the size of a partition; not used by `pagination`.
        samples_per_partition: the samples of the strategy `sample`.
        partition_record_size: the documents of a partition of the strategy `pagination`.
    """

    fetch_size: int = 2048
    no_cursor_timeout: bool = True
    partition_strategy: str = "default"
    partition_size_bytes: int = 64 * _MB
    samples_per_partition: int = 10
    partition_record_size: int | None = None


def split_collection(
    client: Any, connection: MongoConnectionOptions, options: MongoReadOptions
) -> list[MongoScanSourceSplit]:
    """Returns the splits of a collection. Raises: MongoError."""
    pymongo = load_pymongo()
    strategy = options.partition_strategy
    try:
        if strategy == "single":
            return [_split(connection, 0, None, None)]
        sharded = _sharded_collection(client, connection) if strategy in ("default", "sharded") else None
        if sharded is not None:
            return _chunks(client, connection, sharded)
        if strategy == "sharded":
            raise MongoError(f"MongoDB collection {connection.namespace} is not sharded: choose another strategy")
        if strategy == "sample":
            return _samples(client, connection, options)
        if strategy == "pagination":
            return _pages(client, connection, options)
        return _split_vector(client, connection, options)
    except pymongo.errors.PyMongoError as error:
        raise connection.error(f"cannot be divided by the strategy {strategy}", error) from error


def _split(connection: MongoConnectionOptions, number: int, lower: Any, upper: Any) -> MongoScanSourceSplit:
    """Returns the split between two values of `_id`; None: without a bound."""
    bounds = [None if value is None else ((ID, value),) for value in (lower, upper)]
    return MongoScanSourceSplit(f"{connection.namespace}_{number}", bounds[0], bounds[1])


def _between(connection: MongoConnectionOptions, cuts: list[Any]) -> list[MongoScanSourceSplit]:
    """Returns the splits between values of `_id`, and those before the first and after the last one."""
    bounds = [None, *cuts, None]
    return [_split(connection, number, *pair) for number, pair in enumerate(itertools.pairwise(bounds))]


def _split_vector(
    client: Any, connection: MongoConnectionOptions, options: MongoReadOptions
) -> list[MongoScanSourceSplit]:
    pymongo = load_pymongo()
    size_mb = max(options.partition_size_bytes // _MB, 1)
    try:
        found = client[connection.database].command(
            {"splitVector": connection.namespace, "keyPattern": {ID: 1}, "maxChunkSize": size_mb}
        )
    except pymongo.errors.OperationFailure as error:
        if error.code not in _NO_SPLIT_VECTOR:
            raise
        _LOG.warning("%s: splitVector is not available (%s); taking samples instead", connection.namespace, error)
        return _samples(client, connection, options)
    return _between(connection, [key[ID] for key in found.get("splitKeys", ())])


def _samples(client: Any, connection: MongoConnectionOptions, options: MongoReadOptions) -> list[MongoScanSourceSplit]:
    statistics = client[connection.database].command({"collStats": connection.collection})
    count, size = int(statistics.get("count", 0)), int(statistics.get("avgObjSize", 0))
    per_partition = max(options.partition_size_bytes // size, 1) if size else count
    if per_partition >= count:
        return [_split(connection, 0, None, None)]
    step = options.samples_per_partition
    stages = [{"$sample": {"size": math.ceil(step * count / per_partition)}}, {"$project": {ID: 1}}, {"$sort": {ID: 1}}]
    samples = [each[ID] for each in connection.collection_of(client).aggregate(stages, allowDiskUse=True)]
    return _between(connection, samples[step::step])


def _pages(client: Any, connection: MongoConnectionOptions, options: MongoReadOptions) -> list[MongoScanSourceSplit]:
    size = options.partition_record_size or 1
    cuts: list[Any] = []
    collection = connection.collection_of(client)
    while True:
        rest = {ID: {"$gte": cuts[-1]}} if cuts else {}
        found = next(collection.find(rest, {ID: 1}).sort(ID, 1).skip(size).limit(1), None)
        if found is None:
            return _between(connection, cuts)
        cuts.append(found[ID])


def _sharded_collection(client: Any, connection: MongoConnectionOptions) -> Any:
    """Returns what the cluster knows about the sharded collection; None if it is not sharded."""
    found = client["config"]["collections"].find_one({ID: connection.namespace})
    return None if found is None or found.get("dropped") else found


def _chunks(client: Any, connection: MongoConnectionOptions, sharded: Any) -> list[MongoScanSourceSplit]:
    of_collection = {"$or": [{"uuid": sharded.get("uuid")}, {"ns": connection.namespace}]}
    hint = tuple(sharded["key"].items())
    return [
        MongoScanSourceSplit(
            f"{connection.namespace}_{chunk[ID]}", tuple(chunk["min"].items()), tuple(chunk["max"].items()), hint
        )
        for chunk in client["config"]["chunks"].find(of_collection).sort("min", 1)
    ]
