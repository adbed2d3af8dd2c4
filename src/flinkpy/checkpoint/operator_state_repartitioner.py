"""Operator state for another number of subtasks. Pure.

SPLIT_DISTRIBUTE: the elements of all subtasks, in order, dealt out in runs whose lengths differ by one at most. UNION:
everything to each. BROADCAST: to each the copy of one subtask.

Source: org.apache.flink.runtime.checkpoint.RoundRobinOperatorStateRepartitioner.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from flinkpy._proto import checkpoint_pb2

OperatorStateHandle = checkpoint_pb2.OperatorStateHandle
_Elements = OperatorStateHandle.Elements


def repartition(
    old: Mapping[int, Sequence[OperatorStateHandle]], old_parallelism: int, new_parallelism: int
) -> list[list[OperatorStateHandle]]:
    """What each of the new subtasks gets.

    Args:
        old: by subtask; one that had nothing may be absent.
    """
    sources = [handle for subtask in sorted(old) for handle in old[subtask]]
    given = _Given(new_parallelism, sources)
    unions = [(handle, part) for handle in sources if (part := _part(handle, checkpoint_pb2.UNION))]
    for subtask in range(new_parallelism):
        for handle, part in unions:
            given.add(subtask, handle, part)
    if old_parallelism == new_parallelism:
        for subtask, handles in sorted(old.items()):
            for handle in handles:
                given.add(subtask, handle, _part(handle, checkpoint_pb2.SPLIT_DISTRIBUTE))
    else:
        _split(old, given)
    _broadcast(old, given)
    return given.handles()


class _Given:
    """Collects what subtasks get; parts of one file become one handle again, and files keep their order."""

    def __init__(self, parallelism: int, sources: Sequence[OperatorStateHandle]) -> None:
        self.parallelism = parallelism
        self._ranks = {id(source): rank for rank, source in enumerate(sources)}
        self._by_file: list[dict[int, OperatorStateHandle]] = [{} for _ in range(parallelism)]

    def add(self, subtask: int, source: OperatorStateHandle, states: Sequence[_Elements]) -> None:
        if not states:
            return
        rank = self._ranks[id(source)]
        handle = self._by_file[subtask].get(rank)
        if handle is None:
            handle = self._by_file[subtask][rank] = OperatorStateHandle(file=source.file)
        handle.states.extend(states)

    def handles(self) -> list[list[OperatorStateHandle]]:
        return [[by_file[rank] for rank in sorted(by_file)] for by_file in self._by_file]


def _part(handle: OperatorStateHandle, mode: checkpoint_pb2.OperatorStateModeMessage) -> list[_Elements]:
    return [elements for elements in handle.states if elements.mode == mode]


def _split(old: Mapping[int, Sequence[OperatorStateHandle]], given: _Given) -> None:
    """Each state is evenly spread by itself; odd elements of different states go to different subtasks."""
    by_name: dict[str, list[tuple[OperatorStateHandle, _Elements]]] = {}
    for subtask in sorted(old):
        for handle in old[subtask]:
            for elements in _part(handle, checkpoint_pb2.SPLIT_DISTRIBUTE):
                by_name.setdefault(elements.name, []).append((handle, elements))
    first_with_odd = 0
    for name, sources in sorted(by_name.items()):
        total = sum(len(elements.offsets) for _, elements in sources)
        each, odd = divmod(total, given.parallelism)
        shares = [each + ((s - first_with_odd) % given.parallelism < odd) for s in range(given.parallelism)]
        first_with_odd = (first_with_odd + odd) % given.parallelism
        subtask = 0
        for handle, elements in sources:
            start, end = 0, len(elements.offsets)
            if start == end:
                # Nothing in it, but its name and mode are known to whoever reads it.
                given.add(min(subtask, given.parallelism - 1), handle, [elements])
            while start < end:
                while not shares[subtask]:
                    subtask += 1
                taken = min(shares[subtask], end - start)
                part = _Elements(
                    name=name,
                    mode=elements.mode,
                    offsets=elements.offsets[start : start + taken],
                    lengths=elements.lengths[start : start + taken],
                )
                given.add(subtask, handle, [part])
                shares[subtask] -= taken
                start += taken


def _broadcast(old: Mapping[int, Sequence[OperatorStateHandle]], given: _Given) -> None:
    """Each subtask its own copy where it has one, else that of another: they are all the same."""
    copies: dict[str, dict[int, list[tuple[OperatorStateHandle, _Elements]]]] = {}
    for subtask in sorted(old):
        for handle in old[subtask]:
            for elements in _part(handle, checkpoint_pb2.BROADCAST):
                copies.setdefault(elements.name, {}).setdefault(subtask, []).append((handle, elements))
    for _, by_subtask in sorted(copies.items()):
        sources = list(by_subtask.values())
        for subtask in range(given.parallelism):
            for handle, elements in by_subtask.get(subtask, sources[subtask % len(sources)]):
                given.add(subtask, handle, [elements])
