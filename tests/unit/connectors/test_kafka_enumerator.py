"""The enumerators of Kafka sources: what is assigned when, what a checkpoint has, what happens without brokers."""

from __future__ import annotations

import pickle

import pytest

from flinkpy.common.errors import ConfigurationError, KafkaError
from flinkpy.connectors.kafka.dynamic_enumerator import (
    Discovered,
    DynamicKafkaSourceEnumerator,
    DynamicKafkaSourceEnumStateSerializer,
    DynamicKafkaSourceSplit,
    DynamicKafkaSourceSplitSerializer,
    MetadataUpdate,
    StreamDiscovery,
)
from flinkpy.connectors.kafka.enumerator import KafkaSourceEnumerator
from flinkpy.connectors.kafka.partitions import (
    KafkaPartitionSplit,
    KafkaSourceEnumStateSerializer,
    KafkaTopicPartition,
    split_owner,
)
from flinkpy.connectors.kafka.stream_metadata import (
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


class Cluster:
    """`find` of a discovery: the partitions of a topic, with the offset 0 as their earliest one."""

    def __init__(self, partitions, start=7):
        self.partitions = partitions
        self.start = start
        self.error = None

    def find(self, known, *, is_initial):
        if self.error is not None:
            raise self.error
        wanted = [KafkaTopicPartition("t", number) for number in range(self.partitions)]
        return [KafkaPartitionSplit(key, self.start if is_initial else 0) for key in wanted if key not in known]


def started(cluster, interval_ms=100, ends=False, state=None, readers=2, context=None):
    context = context or Context()
    enumerator = KafkaSourceEnumerator(context, cluster.find, interval_ms, ends, state)
    enumerator.start()
    context.run_calls()
    for reader in range(readers):
        context.registered_readers.add(reader)
        enumerator.add_reader(reader)
    return enumerator, context


def test_partitions_go_to_their_owners_and_later_ones_begin_at_their_beginning():
    cluster = Cluster(3)
    _, context = started(cluster)
    assert sorted(
        (index, split.partition.partition, split.starting_offset) for index, split in context.assigned
    ) == sorted((split_owner(KafkaTopicPartition("t", number), 2), number, 7) for number in range(3))
    context.assigned.clear()
    context.run_timer()
    assert context.assigned == []
    cluster.partitions = 4
    context.run_timer()
    [(_, split)] = context.assigned
    assert (split.partition.partition, split.starting_offset) == (3, 0)
    assert context.timers[0][0] == 100


def test_a_restored_enumerator_knows_what_was_given_out():
    serializer = KafkaSourceEnumStateSerializer()
    enumerator, _ = started(Cluster(2))
    state = serializer.deserialize(1, serializer.serialize(enumerator.snapshot_state(1)))
    assert state == enumerator.snapshot_state(1)
    cluster = Cluster(3)
    _, context = started(cluster, state=state)
    [(_, split)] = context.assigned
    assert (split.partition.partition, split.starting_offset) == (2, 0), "it appeared while the job was away"


def test_a_checkpoint_before_the_first_discovery_knows_nothing():
    context = Context()
    enumerator = KafkaSourceEnumerator(context, Cluster(1).find, 100, False)
    enumerator.start()
    _, restored = started(Cluster(1), state=enumerator.snapshot_state(1))
    assert restored.assigned[0][1].starting_offset == 7, "where the user said"


def test_splits_of_a_failed_reader_are_given_out_again_as_they_are():
    enumerator, context = started(Cluster(1))
    [(owner, split)] = context.assigned
    context.assigned.clear()
    enumerator.add_splits_back([split], owner)
    assert context.assigned == [(owner, split)]


@pytest.mark.parametrize(("ends", "interval_ms", "expected"), [(True, -1, [0, 1]), (True, 100, []), (False, -1, [])])
def test_readers_are_told_that_no_more_splits_come(ends, interval_ms, expected):
    enumerator, context = started(Cluster(1), interval_ms, ends)
    assert context.no_more == expected
    if expected:
        enumerator.add_reader(1)
        assert context.no_more == [0, 1, 1], "one that has failed does not know it any more"


def test_readers_that_were_there_before_the_first_discovery_are_told_then():
    context = Context()
    enumerator = KafkaSourceEnumerator(context, Cluster(1).find, -1, True)
    enumerator.start()
    context.registered_readers = {0, 1}
    enumerator.add_reader(0)
    enumerator.add_reader(1)
    assert context.no_more == []
    context.run_calls()
    assert sorted(context.no_more) == [0, 1]


def test_the_first_discovery_must_succeed_and_later_ones_are_tried_again(caplog):
    cluster = Cluster(1)
    cluster.error = KafkaError("nobody answers")
    with pytest.raises(KafkaError, match="nobody answers"):
        started(cluster)
    cluster.error = None
    _, context = started(cluster)
    cluster.error = KafkaError("nobody answers")
    context.run_timer()
    assert "looking for new partitions failed" in caplog.text
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


def discovery(service, subscriber):
    """Every topic has one partition."""

    def find_on(cluster_id, metadata):
        def find(known, *, is_initial):
            wanted = [KafkaTopicPartition(topic, 0) for topic in sorted(metadata.topics)]
            return [KafkaPartitionSplit(key, 7 if is_initial else 0) for key in wanted if key not in known]

        return find

    return StreamDiscovery(service, subscriber, find_on)


def test_streams_are_resolved_to_clusters_and_topics():
    service = Service({"a": {"c1": at("t1"), "c2": at("t1")}, "ab": {"c1": at("t2")}, "b": {"c3": at("t3")}})
    found = discovery(service, StreamPatternSubscriber("a.*")).find({}, is_initial=True)
    assert found.clusters == {"c1": at("t1", "t2"), "c2": at("t1")}
    assert [split.split_id for split in found.splits] == ["c1-t1-0", "c1-t2-0", "c2-t1-0"]
    service.inactive = {"c2"}
    known = {"c1": frozenset({KafkaTopicPartition("t1", 0)})}
    found = discovery(service, KafkaStreamSetSubscriber({"a", "ab"})).find(known, is_initial=False)
    assert [(split.split_id, split.split.starting_offset) for split in found.splits] == [("c1-t2-0", 0)]
    with pytest.raises(KafkaError, match="Kafka streams nobody are not known"):
        discovery(service, KafkaStreamSetSubscriber({"a", "nobody"})).find({}, is_initial=True)


def test_readers_are_told_of_clusters_and_of_streams_that_move():
    service = Service({"a": {"c1": at("t1")}})
    context = Context()
    find = discovery(service, KafkaStreamSetSubscriber({"a"})).find
    enumerator = DynamicKafkaSourceEnumerator(context, find, 100, 1, False)
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
    assert context.assigned[-1][1] == DynamicKafkaSourceSplit(
        "c1", KafkaPartitionSplit(KafkaTopicPartition("t1", 0), 0)
    )


def test_the_state_of_a_stream_source_is_stored():
    service = Service({"a": {"c1": at("t1", "t2")}})
    context = Context()
    find = discovery(service, KafkaStreamSetSubscriber({"a"})).find
    enumerator = DynamicKafkaSourceEnumerator(context, find, -1, 1, True)
    enumerator.start()
    context.run_calls()
    serializer = DynamicKafkaSourceEnumStateSerializer()
    state = serializer.deserialize(1, serializer.serialize(enumerator.snapshot_state(1)))
    splits = DynamicKafkaSourceSplitSerializer()
    for _, split in context.assigned:
        assert splits.deserialize(1, splits.serialize(split)) == split
        assert pickle.loads(pickle.dumps(split)) == split
    restored = Context()
    DynamicKafkaSourceEnumerator(restored, find, -1, 1, True, state).start()
    restored.run_calls()
    assert restored.assigned == []


def test_a_metadata_service_may_fail_so_often():
    service = Service({"a": {"c1": at("t1")}})
    context = Context()
    find = discovery(service, KafkaStreamSetSubscriber({"a"})).find
    answers = []

    def find_or_fail(assigned, *, is_initial):
        if answers:
            raise answers.pop(0)
        return find(assigned, is_initial=is_initial)

    enumerator = DynamicKafkaSourceEnumerator(context, find_or_fail, 100, 2, False)
    enumerator.start()
    context.run_calls()
    answers += [KafkaError("away")] * 2
    context.run_timer()
    context.run_timer()
    context.run_timer()
    answers += [KafkaError("away")] * 3
    context.run_timer()
    context.run_timer()
    with pytest.raises(KafkaError, match="away"):
        context.run_timer()
    assert isinstance(Discovered({}, []), Discovered)
