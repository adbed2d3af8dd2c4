"""The enumerator of Kafka sources: assignment, checkpoints, failed discoveries, and streams on several clusters."""

from __future__ import annotations

import pickle

import pytest

from flinkpy.common.errors import ConfigurationError, KafkaError
from flinkpy.connectors.kafka.enumerator import Discovered, KafkaSourceEnumerator, MetadataUpdate, StreamDiscovery
from flinkpy.connectors.kafka.partitions import (
    KafkaPartitionSplit,
    KafkaPartitionSplitSerializer,
    KafkaSourceEnumState,
    KafkaSourceEnumStateSerializer,
    KafkaTopicPartition,
    split_owner,
)
from flinkpy.connectors.kafka.subscriber import (
    ClusterMetadata,
    KafkaMetadataService,
    KafkaStream,
    KafkaStreamSetSubscriber,
    StreamPatternSubscriber,
)


class Context:
    """SplitEnumeratorContext; asynchronous calls and timers wait until the test runs them."""

    def __init__(self, parallelism=2):
        self.parallelism = parallelism
        self.registered_readers = set()
        self.assigned = []
        self.no_more = []
        self.events = []
        self.calls = []
        self.timers = []

    def assign_splits(self, assignment):
        self.assigned += [(index, split) for index, splits in sorted(assignment.items()) for split in splits]

    def signal_no_more_splits(self, subtask_index):
        self.no_more.append(subtask_index)

    def send_event_to_reader(self, subtask_index, event):
        self.events.append((subtask_index, event))

    def call_async(self, call, on_done):
        self.calls.append((call, on_done))

    def schedule(self, delay_ms, action):
        self.timers.append((delay_ms, action))

    def run_calls(self):
        calls, self.calls = self.calls, []
        for call, on_done in calls:
            try:
                result, error = call(), None
            except Exception as raised:  # noqa: BLE001 - handed on, as the JobMaster does
                result, error = None, raised
            on_done(result, error)

    def run_timer(self):
        [(_, action)] = self.timers
        self.timers = []
        action()
        self.run_calls()


NEW = KafkaSourceEnumState({None: frozenset()}, False)
NEW_STREAMS = KafkaSourceEnumState({}, False)


class Cluster:
    """A discovery that finds the partitions of a topic, whose earliest offset is 0."""

    def __init__(self, partitions, start=7):
        self.partitions = partitions
        self.start = start
        self.error = None

    def find(self, assigned, *, is_initial):
        if self.error is not None:
            raise self.error
        wanted = [KafkaTopicPartition("t", number) for number in range(self.partitions)]
        start = self.start if is_initial else 0
        return Discovered([KafkaPartitionSplit(key, start) for key in wanted if key not in assigned[None]])


def started(cluster, interval_ms=100, ends=False, state=NEW, readers=2):
    context = Context()
    enumerator = KafkaSourceEnumerator(context, cluster, interval_ms, ends, state)
    enumerator.start()
    context.run_calls()
    for reader in range(readers):
        context.registered_readers.add(reader)
        enumerator.add_reader(reader)
    return enumerator, context


def partition_split(number, cluster_id=None):
    return KafkaPartitionSplit(KafkaTopicPartition("t", number), 0, kafka_cluster_id=cluster_id)


def test_enumerator_assigns_partitions_to_their_owners_and_reads_later_ones_from_the_beginning():
    cluster = Cluster(3)
    _, context = started(cluster)
    assert sorted(
        (index, split.partition.partition, split.starting_offset) for index, split in context.assigned
    ) == sorted((split_owner(partition_split(number), 2), number, 7) for number in range(3))
    context.assigned.clear()
    context.run_timer()
    assert context.assigned == []
    cluster.partitions = 4
    context.run_timer()
    [(_, split)] = context.assigned
    assert (split.partition.partition, split.starting_offset) == (3, 0)
    assert context.timers[0][0] == 100


def test_restored_enumerator_remembers_the_assigned_partitions():
    serializer = KafkaSourceEnumStateSerializer()
    enumerator, _ = started(Cluster(2))
    state = serializer.deserialize(1, serializer.serialize(enumerator.snapshot_state(1)))
    assert state == enumerator.snapshot_state(1)
    cluster = Cluster(3)
    _, context = started(cluster, state=state)
    [(_, split)] = context.assigned
    assert (split.partition.partition, split.starting_offset) == (2, 0), "the partition appeared while the job was down"


def test_checkpoint_before_the_first_discovery_keeps_the_starting_offsets():
    context = Context()
    enumerator = KafkaSourceEnumerator(context, Cluster(1), 100, False, NEW)
    enumerator.start()
    _, restored = started(Cluster(1), state=enumerator.snapshot_state(1))
    assert restored.assigned[0][1].starting_offset == 7, "the starting offset of the source"


def test_enumerator_reassigns_the_splits_of_a_failed_reader_unchanged():
    enumerator, context = started(Cluster(1))
    [(owner, split)] = context.assigned
    context.assigned.clear()
    enumerator.add_splits_back([split], owner)
    assert context.assigned == [(owner, split)]


@pytest.mark.parametrize(("ends", "interval_ms", "expected"), [(True, -1, [0, 1]), (True, 100, []), (False, -1, [])])
def test_readers_learn_that_no_more_splits_come(ends, interval_ms, expected):
    enumerator, context = started(Cluster(1), interval_ms, ends)
    assert context.no_more == expected
    if expected:
        enumerator.add_reader(1)
        assert context.no_more == [0, 1, 1], "a restarted reader has forgotten the signal"


def test_readers_that_registered_before_the_first_discovery_learn_that_no_more_splits_come():
    context = Context()
    enumerator = KafkaSourceEnumerator(context, Cluster(1), -1, True, NEW)
    enumerator.start()
    context.registered_readers = {0, 1}
    enumerator.add_reader(0)
    enumerator.add_reader(1)
    assert context.no_more == []
    context.run_calls()
    assert sorted(context.no_more) == [0, 1]


def test_first_discovery_must_succeed_and_later_ones_are_retried(caplog):
    cluster = Cluster(1)
    cluster.error = KafkaError("nobody answers")
    with pytest.raises(KafkaError, match="nobody answers"):
        started(cluster)
    cluster.error = None
    _, context = started(cluster)
    cluster.error = KafkaError("nobody answers")
    context.run_timer()
    assert "a discovery of partitions failed" in caplog.text
    cluster.error, cluster.partitions = None, 2
    context.run_timer()
    assert len(context.assigned) == 2
    cluster.error = ConfigurationError("wrong")
    with pytest.raises(ConfigurationError):
        context.run_timer()


# -- streams -----------------------------------------------------------------------------------------------------------


class Service(KafkaMetadataService):
    def __init__(self, streams, inactive=()):
        super().__init__()
        self.streams = streams
        self.inactive = inactive

    def get_all_streams(self):
        return {KafkaStream(name, clusters) for name, clusters in self.streams.items()}

    def describe_streams(self, stream_ids):
        return {found.stream_id: found for found in self.get_all_streams() if found.stream_id in stream_ids}

    def is_cluster_active(self, kafka_cluster_id):
        return kafka_cluster_id not in self.inactive


def at(*topics, servers="x"):
    return ClusterMetadata(frozenset(topics), {"bootstrap.servers": servers})


class DiscoveryOnCluster:
    """Finds one partition of every topic of a cluster."""

    def __init__(self, cluster_id, metadata):
        self.cluster_id = cluster_id
        self.topics = sorted(metadata.topics)

    def find(self, assigned, *, is_initial):
        known = assigned.get(self.cluster_id, frozenset())
        wanted = [KafkaTopicPartition(topic, 0) for topic in self.topics]
        start = 7 if is_initial else 0
        return Discovered(
            [KafkaPartitionSplit(key, start, kafka_cluster_id=self.cluster_id) for key in wanted if key not in known]
        )


def discovery(service, subscriber):
    return StreamDiscovery(service, subscriber, DiscoveryOnCluster)


def stream_enumerator(context, found, interval_ms=100, ends=False, state=NEW_STREAMS, max_failures=1):
    return KafkaSourceEnumerator(
        context, found, interval_ms, ends, state, max_failures=max_failures, tolerates=Exception
    )


def test_discovery_resolves_streams_to_clusters_and_topics():
    service = Service({"a": {"c1": at("t1"), "c2": at("t1")}, "ab": {"c1": at("t2")}, "b": {"c3": at("t3")}})
    found = discovery(service, StreamPatternSubscriber("a.*")).find({}, is_initial=True)
    assert found.clusters == {"c1": at("t1", "t2"), "c2": at("t1")}
    assert [split.split_id for split in found.splits] == ["c1-t1-0", "c1-t2-0", "c2-t1-0"]
    service.inactive = {"c2"}
    known = {"c1": frozenset({KafkaTopicPartition("t1", 0)})}
    found = discovery(service, KafkaStreamSetSubscriber({"a", "ab"})).find(known, is_initial=False)
    assert [(split.split_id, split.starting_offset) for split in found.splits] == [("c1-t2-0", 0)]
    with pytest.raises(KafkaError, match="does not know the Kafka streams nobody"):
        discovery(service, KafkaStreamSetSubscriber({"a", "nobody"})).find({}, is_initial=True)


def test_enumerator_announces_clusters_and_follows_streams_that_move():
    service = Service({"a": {"c1": at("t1")}})
    context = Context()
    enumerator = stream_enumerator(context, discovery(service, KafkaStreamSetSubscriber({"a"})))
    enumerator.start()
    context.registered_readers = {0, 1}
    context.run_calls()
    assert context.events == [(reader, MetadataUpdate({"c1": at("t1")})) for reader in (0, 1)]
    context.events.clear()
    context.run_timer()
    assert context.events == [], "nothing has changed"
    service.streams = {"a": {"c2": at("t1", servers="y")}}
    context.run_timer()
    assert context.events == [(reader, MetadataUpdate({"c2": at("t1", servers="y")})) for reader in (0, 1)]
    assert [split.split_id for _, split in context.assigned] == ["c1-t1-0", "c2-t1-0"]
    enumerator.add_reader(1)
    assert len(context.events) == 3
    service.streams = {"a": {"c1": at("t1")}}
    context.run_timer()
    assert context.assigned[-1][1] == KafkaPartitionSplit(KafkaTopicPartition("t1", 0), 0, kafka_cluster_id="c1")


def test_restored_enumerator_remembers_the_partitions_of_streams():
    service = Service({"a": {"c1": at("t1", "t2")}})
    context = Context()
    found = discovery(service, KafkaStreamSetSubscriber({"a"}))
    enumerator = stream_enumerator(context, found, -1, True)
    enumerator.start()
    context.run_calls()
    serializer = KafkaSourceEnumStateSerializer()
    state = serializer.deserialize(1, serializer.serialize(enumerator.snapshot_state(1)))
    splits = KafkaPartitionSplitSerializer()
    for _, split in context.assigned:
        assert splits.deserialize(1, splits.serialize(split)) == split
        assert pickle.loads(pickle.dumps(split)) == split
    restored = Context()
    stream_enumerator(restored, found, -1, True, state).start()
    restored.run_calls()
    assert restored.assigned == []


def test_metadata_service_may_fail_a_limited_number_of_times_in_a_row():
    errors = []

    class FailingService(Service):
        def describe_streams(self, stream_ids):
            if errors:
                raise errors.pop(0)
            return super().describe_streams(stream_ids)

    context = Context()
    found = discovery(FailingService({"a": {"c1": at("t1")}}), KafkaStreamSetSubscriber({"a"}))
    stream_enumerator(context, found, max_failures=2).start()
    context.run_calls()
    errors += [KafkaError("away"), ValueError("a fault of the service")]
    context.run_timer()
    context.run_timer()
    context.run_timer()
    errors += [KafkaError("away")] * 3
    context.run_timer()
    context.run_timer()
    with pytest.raises(KafkaError, match="away"):
        context.run_timer()


def test_stored_forms_of_splits_and_states_stay():
    """Savepoints hold these bytes."""
    splits, states = KafkaPartitionSplitSerializer(), KafkaSourceEnumStateSerializer()
    partition = KafkaTopicPartition("t", 3)
    stored_splits = {
        b'["t", 3, 7, 9]': KafkaPartitionSplit(partition, 7, 9),
        b'["c", "t", 3, 7, 9]': KafkaPartitionSplit(partition, 7, 9, "c"),
    }
    for data, split in stored_splits.items():
        assert (splits.serialize(split), splits.deserialize(1, data)) == (data, split)
    stored_states = {
        b"[[], [], false]": NEW,
        b"[{}, false]": NEW_STREAMS,
        b'[[["t", 3]], [], true]': KafkaSourceEnumState({None: frozenset({partition})}, True),
        b'[{"c": [["t", 3]]}, true]': KafkaSourceEnumState({"c": frozenset({partition})}, True),
    }
    for data, state in stored_states.items():
        assert (states.serialize(state), states.deserialize(1, data)) == (data, state)


def test_topics_of_one_name_begin_at_different_subtasks_on_different_clusters():
    owners = {split_owner(partition_split(0, cluster_id), 7) for cluster_id in ("a", "b", "c", "d")}
    assert len(owners) > 1
    assert split_owner(partition_split(0), 7) == split_owner(partition_split(0, ""), 7)
