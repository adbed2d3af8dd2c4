"""State is redistributed to any parallelism completely, once and in order."""

from __future__ import annotations

from collections import Counter

import hypothesis.strategies as st
from hypothesis import given

from flinkpy._proto import checkpoint_pb2 as pb
from flinkpy.checkpoint.job_description import InputDescription, OperatorDescription, VertexDescription
from flinkpy.checkpoint.state_assignment import assign_state, repartition
from flinkpy.common.key_groups import key_group_range

PARALLELISM = st.integers(1, 9)


def file_named(name: str) -> pb.StreamStateHandle:
    return pb.StreamStateHandle(path=f"/c/{name}", size_bytes=1)


@st.composite
def operator_states(draw):
    """Draws (old parallelism, handles by subtask). An element is identified by its file and offset."""
    parallelism = draw(PARALLELISM)
    names = draw(st.lists(st.sampled_from(["splits", "offsets", "buffer"]), unique=True))
    union = draw(st.booleans())
    broadcast = draw(st.booleans())
    old = {}
    for subtask in range(parallelism):
        if draw(st.integers(0, 4)) == 0:
            continue  # this subtask has no state
        handle = pb.OperatorStateHandle(file=file_named(f"op-{subtask}"))
        position = 0
        for name, mode in [
            *((name, pb.SPLIT_DISTRIBUTE) for name in names),
            *([("union", pb.UNION)] if union else []),
        ]:
            count = draw(st.integers(0, 7))
            offsets = list(range(position, position + count))
            handle.states.add(name=name, mode=mode, offsets=offsets, lengths=[1] * count)
            position += count
        if broadcast:
            handle.states.add(name="rules", mode=pb.BROADCAST, offsets=[position], lengths=[1])
        old[subtask] = [handle]
    return parallelism, old


def elements(handles, mode):
    return [
        (states.name, handle.file.path, offset)
        for handle in handles
        for states in handle.states
        if states.mode == mode
        for offset in states.offsets
    ]


@given(operator_states(), PARALLELISM)
def test_operator_state_is_distributed_by_its_mode(states, new_parallelism):
    old_parallelism, old = states
    given_out = repartition(old, old_parallelism, new_parallelism)
    assert len(given_out) == new_parallelism
    all_old = [handle for handles in old.values() for handle in handles]

    split = [elements(handles, pb.SPLIT_DISTRIBUTE) for handles in given_out]
    assert Counter(e for part in split for e in part) == Counter(elements(all_old, pb.SPLIT_DISTRIBUTE))
    if new_parallelism == old_parallelism:
        assert split == [elements(old.get(s, []), pb.SPLIT_DISTRIBUTE) for s in range(old_parallelism)]
    else:
        for name in {name for part in split for name, _, _ in part}:
            sizes = [sum(1 for e in part if e[0] == name) for part in split]
            assert max(sizes) - min(sizes) <= 1
            in_order = [e for part in split for e in part if e[0] == name]
            assert in_order == [e for e in elements(all_old, pb.SPLIT_DISTRIBUTE) if e[0] == name]

    for handles in given_out:
        assert elements(handles, pb.UNION) == elements(all_old, pb.UNION)
        copies = elements(handles, pb.BROADCAST)
        assert len(copies) == (1 if elements(all_old, pb.BROADCAST) else 0)
        assert set(copies) <= set(elements(all_old, pb.BROADCAST))


def a_job(kind: str, producers: int, consumers: int, max_parallelism: int) -> list[VertexDescription]:
    source = VertexDescription("S", "source", (OperatorDescription("s"),), producers, 128)
    edge = InputDescription("S", 0, kind)
    operators = (OperatorDescription("head"), OperatorDescription("tail"))
    return [source, VertexDescription("V", "consumer", operators, consumers, max_parallelism, (edge,))]


@st.composite
def checkpoints(draw):
    """Draws a checkpoint of a source and a keyed consumer, with all kinds of state and in-flight data between them."""
    kind = draw(st.sampled_from(["HASH", "REBALANCE", "SHUFFLE", "GLOBAL"]))
    max_parallelism = draw(st.sampled_from([9, 10, 16, 128]))
    producers, consumers = draw(PARALLELISM), draw(PARALLELISM)
    metadata = pb.CheckpointMetadata()
    source = metadata.operators.add(operator_id="s", parallelism=producers, max_parallelism=128)
    head = metadata.operators.add(operator_id="head", parallelism=consumers, max_parallelism=max_parallelism)
    tail = metadata.operators.add(operator_id="tail", parallelism=consumers, max_parallelism=max_parallelism)
    for subtask in range(consumers):
        own = key_group_range(max_parallelism, consumers, subtask)
        for operator in (head, tail):
            if draw(st.booleans()):
                state = operator.subtasks[subtask].keyed.add().key_groups
                state.key_groups.start, state.key_groups.end = own.start, own.end
                state.file.CopyFrom(file_named(f"keyed-{operator.operator_id}-{subtask}"))
    targets = [0] if kind == "GLOBAL" else range(consumers)
    for producer in range(producers):
        for consumer in targets:
            if draw(st.booleans()):
                head.subtasks[consumer].channels.add(
                    edge_index=0,
                    subtask_index=consumer,
                    channel_index=producer,
                    file=file_named(f"received-{producer}-{consumer}"),
                )
            if draw(st.booleans()):
                source.subtasks[producer].channels.add(
                    is_output=True,
                    edge_index=0,
                    subtask_index=producer,
                    channel_index=consumer,
                    file=file_named(f"queued-{producer}-{consumer}"),
                )
    return kind, max_parallelism, producers, consumers, metadata


@given(checkpoints(), PARALLELISM, PARALLELISM)
def test_every_key_group_has_exactly_one_owner(checkpoint, new_producers, new_consumers):
    kind, max_parallelism, _, _, metadata = checkpoint
    job = a_job(kind, new_producers, new_consumers, max_parallelism)
    assignment = assign_state(metadata, job)
    for operator in metadata.operators[1:]:
        stored = Counter(
            (handle.key_groups.file.path, group)
            for state in operator.subtasks.values()
            for handle in state.keyed
            for group in range(handle.key_groups.key_groups.start, handle.key_groups.key_groups.end + 1)
        )
        read: Counter[tuple[str, int]] = Counter()
        for subtask in range(new_consumers):
            own = key_group_range(max_parallelism, new_consumers, subtask)
            for handle in assignment.task_states["V", subtask].operators[operator.operator_id].keyed:
                stored_range = handle.key_groups.key_groups
                groups = [g for g in range(stored_range.start, stored_range.end + 1) if g in own]
                assert groups, "a file without anything for the subtask"
                read.update((handle.key_groups.file.path, group) for group in groups)
        assert read == stored


@given(checkpoints(), PARALLELISM, PARALLELISM)
def test_in_flight_data_reaches_the_right_subtask_once_and_in_order(checkpoint, new_producers, new_consumers):
    kind, max_parallelism, producers, consumers, metadata = checkpoint
    assignment = assign_state(metadata, a_job(kind, new_producers, new_consumers, max_parallelism))
    names = {
        handle.file.path.removeprefix("/c/")
        for operator in metadata.operators
        for state in operator.subtasks.values()
        for handle in state.channels
    }
    given_out = {}
    for subtask in range(new_consumers):
        state = assignment.task_states["V", subtask].operators["head"]
        given_out[subtask] = [handle.file.path.removeprefix("/c/") for handle in state.channels]
        for handle in state.channels:
            how, producer, consumer = handle.file.path.removeprefix("/c/").split("-")
            assert not handle.is_output
            assert handle.edge_index == 0
            assert (handle.channel_index, handle.subtask_index) == (int(producer), int(consumer)), how
        if state.channels:
            assert state.filter_channels == (kind == "HASH" and new_consumers != consumers)
    for producer in range(new_producers):
        assert not assignment.task_states["S", producer].operators["s"].channels

    for producer in range(producers):
        for consumer in range(consumers):
            sent = [f"{how}-{producer}-{consumer}" for how in ("received", "queued")]
            sent = [name for name in sent if name in names]
            if kind == "HASH":
                # Each key group of the channel has one reader, which gets the whole channel in order.
                for group in range(max_parallelism):
                    if group in key_group_range(max_parallelism, consumers, consumer):
                        owner = group * new_consumers // max_parallelism
                        assert [name for name in given_out[owner] if name in sent] == sent
                groups = key_group_range(max_parallelism, consumers, consumer)
                for subtask, given_names in given_out.items():
                    own = key_group_range(max_parallelism, new_consumers, subtask)
                    if not set(range(own.start, own.end + 1)) & set(range(groups.start, groups.end + 1)):
                        assert not set(sent) & set(given_names)
            else:
                holders = [s for s, given_names in given_out.items() if set(sent) & set(given_names)]
                assert len(holders) == (1 if sent else 0)
                for holder in holders:
                    assert [name for name in given_out[holder] if name in sent] == sent
    if kind == "GLOBAL":
        assert all(not given_names for subtask, given_names in given_out.items() if subtask)


@given(checkpoints())
def test_subtasks_get_their_own_state_back_at_the_same_parallelism(checkpoint):
    kind, max_parallelism, producers, consumers, metadata = checkpoint
    assignment = assign_state(metadata, a_job(kind, producers, consumers, max_parallelism))
    for operator in metadata.operators[1:]:
        for subtask in range(consumers):
            restored = assignment.task_states["V", subtask].operators[operator.operator_id]
            assert list(restored.keyed) == list(operator.subtasks[subtask].keyed)
