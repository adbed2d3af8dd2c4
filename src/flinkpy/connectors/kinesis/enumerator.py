"""KinesisEnumerator: discovers shards, and assigns each to a reader when its parents have been read.

A reader keeps a finished shard in its checkpoints until a completed checkpoint of the enumerator has it as finished.
Otherwise the shard could be missing from both parts of a checkpoint, because they are not taken at the same moment, and
its children would wait forever.

Source: org.apache.flink.connector.kinesis.source.enumerator.{KinesisStreamsSourceEnumerator,SplitTracker}.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from flinkpy.common.errors import KinesisError
from flinkpy.connector_api.source import SplitEnumerator, SplitEnumeratorContext
from flinkpy.connectors.aws.client import client_errors
from flinkpy.connectors.kinesis.requests import kinesis_error, stream_argument
from flinkpy.connectors.kinesis.shards import KinesisEnumeratorState, KinesisShardAssigner, KinesisShardSplit, Shard

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ShardsFinished:
    """Sent by a reader that has read these shards to their end."""

    split_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FinishKept:
    """Tells a reader that its checkpoints no longer need these finished shards."""

    split_ids: tuple[str, ...]


class ShardDiscovery:
    """Lists the shards of streams. Thread: an I/O thread, one call at a time."""

    def __init__(self, make_client: Callable[[], Any], streams: tuple[str, ...]) -> None:
        self._make_client = make_client
        self._streams = streams
        self._client: Any = None

    def find(self) -> list[Shard]:
        """Returns all shards that still have records, open or closed. Raises: KinesisError."""
        if self._client is None:
            self._client = self._make_client()
        return [shard for stream in self._streams for shard in self._shards_of(stream)]

    def _shards_of(self, stream: str) -> list[Shard]:
        found: list[Shard] = []
        arguments: dict[str, Any] | None = stream_argument(stream)
        while arguments is not None:
            try:
                answer = self._client.list_shards(**arguments)
            except client_errors() as error:
                raise kinesis_error(f"the shards of Kinesis stream {stream!r} cannot be listed", error) from error
            found += [Shard.of(stream, listed) for listed in answer["Shards"]]
            token = answer.get("NextToken")
            arguments = None if token is None else {"NextToken": token}
        return found


class KinesisEnumerator(SplitEnumerator):
    """Assigns shards to readers. Thread: JobMaster main thread.

    Args:
        find: lists all shards, as `ShardDiscovery.find` does. Runs on an I/O thread.
        discovery_interval_ms: the interval of shard discovery; 0 to discover shards only at the start.
    """

    def __init__(
        self,
        context: SplitEnumeratorContext,
        find: Callable[[], list[Shard]],
        assigner: KinesisShardAssigner,
        discovery_interval_ms: int,
        state: KinesisEnumeratorState,
    ) -> None:
        self._context = context
        self._find = find
        self._assigner = assigner
        self._interval_ms = discovery_interval_ms
        self._start = state.start
        self._known = set(state.known)
        self._waiting = {split.split_id: split for split in state.waiting}
        #: Finished shards, with the subtask that reported them; None if a checkpoint contained them.
        self._finished: dict[str, int | None] = dict.fromkeys(state.finished)
        #: Finished shards in a completed checkpoint of this enumerator.
        self._kept = set(state.finished)
        self._snapshots: dict[int, frozenset[str]] = {}
        self._has_discovered = False

    def start(self) -> None:
        self._assign()
        self._discover()

    def handle_split_request(self, subtask_index: int) -> None:
        """Does nothing: shards are assigned without requests."""

    def add_reader(self, subtask_index: int) -> None:
        self._forget_unkept(subtask_index)

    def add_splits_back(self, splits: list[KinesisShardSplit], subtask_index: int) -> None:
        self._forget_unkept(subtask_index)
        self._waiting.update((split.split_id, split) for split in splits)
        self._assign()

    def handle_source_event(self, subtask_index: int, event: Any) -> None:
        assert isinstance(event, ShardsFinished)
        for split_id in event.split_ids:
            self._finished[split_id] = subtask_index
        kept = tuple(split_id for split_id in event.split_ids if split_id in self._kept)
        if kept:
            self._context.send_event_to_reader(subtask_index, FinishKept(kept))
        self._assign()

    def snapshot_state(self, checkpoint_id: int) -> KinesisEnumeratorState:
        finished = self._snapshots[checkpoint_id] = frozenset(self._finished)
        return KinesisEnumeratorState(self._start, frozenset(self._known), tuple(self._waiting.values()), finished)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        kept = self._snapshots.get(checkpoint_id, frozenset()) - self._kept
        self._snapshots = {known: ids for known, ids in self._snapshots.items() if known > checkpoint_id}
        self._kept |= kept
        by_reader: dict[int, list[str]] = {}
        for split_id in kept:
            subtask_index = self._finished.get(split_id)
            if subtask_index in self._context.registered_readers:
                by_reader.setdefault(subtask_index, []).append(split_id)
        for subtask_index, split_ids in by_reader.items():
            self._context.send_event_to_reader(subtask_index, FinishKept(tuple(sorted(split_ids))))

    def _forget_unkept(self, subtask_index: int) -> None:
        """Forgets shards that a failed reader has finished since its checkpoint. It reads them again."""
        for split_id, finished_by in list(self._finished.items()):
            if finished_by == subtask_index and split_id not in self._kept:
                del self._finished[split_id]

    def _discover(self) -> None:
        self._context.call_async(self._find, self._on_found)

    def _on_found(self, shards: list[Shard] | None, error: BaseException | None) -> None:
        if error is not None:
            if not self._has_discovered or not isinstance(error, KinesisError):
                raise error
            _LOG.warning("shard discovery failed; trying again in %d ms: %s", self._interval_ms, error)
        else:
            self._has_discovered = True
            listed = {shard.split_id: shard for shard in shards or ()}
            for split_id, shard in listed.items():
                if split_id not in self._known:
                    self._known.add(split_id)
                    self._waiting[split_id] = KinesisShardSplit(shard, self._start)
            self._forget_expired(set(listed))
            self._assign()
        if self._interval_ms > 0:
            self._context.schedule(self._interval_ms, self._discover)

    def _forget_expired(self, listed: set[str]) -> None:
        """Forgets finished shards that AWS does not list any more."""
        for split_id in self._kept - listed:
            self._kept.discard(split_id)
            self._finished.pop(split_id, None)
            self._known.discard(split_id)

    def _assign(self) -> None:
        """Assigns the waiting shards whose parents have been read or do not exist any more."""
        assignment: dict[int, list[KinesisShardSplit]] = {}
        for split in list(self._waiting.values()):
            if all(parent in self._finished or parent not in self._known for parent in split.shard.parent_split_ids):
                del self._waiting[split.split_id]
                owner = self._assigner.assign(split.shard, self._context.parallelism) % self._context.parallelism
                assignment.setdefault(owner, []).append(split)
        if assignment:
            _LOG.info("assigned Kinesis shards to readers: %s", assignment)
            self._context.assign_splits(assignment)
