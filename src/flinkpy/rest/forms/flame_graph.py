"""Makes the tree of a flame graph from the stacks that TaskExecutors have sampled.

Source: org.apache.flink.runtime.webmonitor.threadinfo.VertexFlameGraphFactory.
"""

from __future__ import annotations

from collections.abc import Iterable

from flinkpy._proto import thread_samples_pb2 as pb
from flinkpy.rest.messages.job_details import FlameGraphNode

_KINDS = {pb.CODE_USER: "user", pb.CODE_LIBRARY: "library"}
_RUNTIME = "runtime"


class _Node:
    __slots__ = ("children", "kind", "value")

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.value = 0
        self.children: dict[str, _Node] = {}


def flame_graph_root(answers: Iterable[pb.ThreadSamples], kind: str) -> FlameGraphNode:
    """Returns the root of the tree. Children are in alphabetical order.

    Args:
        kind: `full`, or only the samples `on_cpu` or `off_cpu`.
    """
    root = _Node(_RUNTIME)
    for answer in answers:
        names = [f"{frame.name}:{frame.line}" if frame.line else frame.name for frame in answer.frames]
        kinds = [_KINDS.get(frame.kind, _RUNTIME) for frame in answer.frames]
        for stack in answer.stacks:
            count = (stack.on_cpu if kind != "off_cpu" else 0) + (stack.off_cpu if kind != "on_cpu" else 0)
            if not count:
                continue
            node = root
            node.value += count
            for index in stack.frames:
                child = node.children.get(names[index])
                if child is None:
                    child = node.children[names[index]] = _Node(kinds[index])
                child.value += count
                node = child
    return _form("root", root)


def _form(name: str, node: _Node) -> FlameGraphNode:
    """Recursive: no stack is deeper than `rest.flamegraph.stack-depth` allows."""
    return FlameGraphNode(
        name=name,
        value=node.value,
        kind=node.kind,
        children=[_form(child, node.children[child]) for child in sorted(node.children)],
    )
