"""Transformations: the user's calls build a graph of them, one object per call.

Only operators process records. A partition, a union and a side output describe where records come from. They become
edges when the StreamGraph is built.

Source: org.apache.flink.api.dag.Transformation, org.apache.flink.streaming.api.transformations.
"""

from __future__ import annotations

import enum
import itertools
import re
from typing import TYPE_CHECKING

from flinkpy.common.key_groups import check_buffer_timeout, check_max_parallelism, check_parallelism
from flinkpy.common.typeinfo import PickledBytesTypeInfo, TypeInformation
from flinkpy.connector_api.source import Boundedness, SourceBase
from flinkpy.graph.operator_specs import (
    BroadcastProcessSpec,
    ColumnJoinSpec,
    KeyedBroadcastProcessSpec,
    KeyedCoProcessSpec,
    KeyedMultipleInputSpec,
    KeyedSpec,
    OperatorSpec,
    SinkSpec,
    SourceSpec,
)
from flinkpy.graph.partitioning import Partitioning

if TYPE_CHECKING:
    from collections.abc import Sequence

#: The backends that may run an operator in batch mode.
BATCH_BACKENDS = ("auto", "native", "spark")

_ids = itertools.count(1)
_UID_HASH = re.compile(r"[0-9a-fA-F]{32}")


class ChainingStrategy(enum.Enum):
    """ALWAYS chains with both sides if possible. HEAD chains only with following operators. NEVER chains at all."""

    ALWAYS = "ALWAYS"
    HEAD = "HEAD"
    NEVER = "NEVER"


class Transformation:
    """The origin of a stream. Compared by identity. Ids increase in the order of creation."""

    def __init__(self, output_type: TypeInformation | None, inputs: Sequence[Transformation]) -> None:
        self.id = next(_ids)
        #: None for pickled Python objects.
        self.output_type = None if isinstance(output_type, PickledBytesTypeInfo) else output_type
        self.inputs = tuple(inputs)


class OperatorTransformation(Transformation):
    """An operator with the settings that the user may change."""

    def __init__(
        self,
        name: str,
        spec: OperatorSpec,
        inputs: Sequence[Transformation],
        *,
        max_allowed_parallelism: int | None = None,
    ) -> None:
        super().__init__(spec.output_type, inputs)
        self.name = name
        self.spec = spec
        self.description = ""
        self.uid = ""
        self.uid_hash = ""
        #: None for the environment's parallelism at the time the graph is built.
        self.parallelism: int | None = None
        #: True if the parallelism is that of the environment, so that the user did not set it on the operator.
        self.has_default_parallelism = False
        self.max_parallelism: int | None = None
        self.buffer_timeout_ms: int | None = None
        #: None for the group of the inputs if they have the same one, else "default".
        self.slot_sharing_group: str | None = None
        self.chaining_strategy = ChainingStrategy.ALWAYS
        #: One of BATCH_BACKENDS; None for the backend of the job. Only batch mode uses it.
        self.batch_backend: str | None = None
        self._max_allowed_parallelism = max_allowed_parallelism
        if max_allowed_parallelism is not None:
            self.parallelism = max_allowed_parallelism

    @property
    def is_source(self) -> bool:
        return isinstance(self.spec, SourceSpec)

    @property
    def is_sink(self) -> bool:
        return isinstance(self.spec, SinkSpec)

    @property
    def keyed_inputs(self) -> tuple[int, ...]:
        """The inputs whose records must be partitioned by key."""
        if isinstance(self.spec, ColumnJoinSpec) and self.spec.is_broadcast:
            return ()
        if isinstance(self.spec, KeyedCoProcessSpec):
            return (0, 1)
        if isinstance(self.spec, KeyedMultipleInputSpec):
            return tuple(range(len(self.spec.key_selectors)))
        return (0,) if isinstance(self.spec, KeyedSpec) else ()

    @property
    def broadcast_inputs(self) -> tuple[int, ...]:
        """The inputs whose records must all reach every subtask."""
        if isinstance(self.spec, ColumnJoinSpec) and self.spec.is_broadcast:
            return (1,)
        return (1,) if isinstance(self.spec, (BroadcastProcessSpec, KeyedBroadcastProcessSpec)) else ()

    @property
    def is_bounded(self) -> bool:
        """True if it is a bounded source."""
        source = getattr(self.spec, "source", None)
        return isinstance(source, SourceBase) and source.boundedness is Boundedness.BOUNDED

    @property
    def display_name(self) -> str:
        """The name that task names show."""
        return f"Source: {self.name}" if self.is_source else self.name

    def set_parallelism(self, parallelism: int) -> None:
        check_parallelism(parallelism)
        allowed = self._max_allowed_parallelism
        if allowed is not None and parallelism > allowed:
            raise ValueError(f"{self.display_name}: the parallelism of a non parallel operator must be 1.")
        self.parallelism = parallelism
        self.has_default_parallelism = False

    @property
    def is_non_parallel(self) -> bool:
        """True if it can have only one subtask."""
        return self._max_allowed_parallelism == 1

    def set_max_parallelism(self, max_parallelism: int) -> None:
        check_max_parallelism(max_parallelism)
        self.max_parallelism = max_parallelism

    def force_non_parallel(self) -> None:
        self.parallelism = 1
        self.has_default_parallelism = False
        self._max_allowed_parallelism = 1

    def set_buffer_timeout(self, timeout_ms: int) -> None:
        check_buffer_timeout(timeout_ms)
        self.buffer_timeout_ms = timeout_ms

    def set_batch_backend(self, backend: str) -> None:
        if backend not in BATCH_BACKENDS:
            known = ", ".join(BATCH_BACKENDS)
            raise ValueError(f"{self.display_name}: the backend must be one of {known}, not {backend!r}")
        self.batch_backend = backend

    def set_uid(self, uid: str) -> None:
        if not isinstance(uid, str) or not uid:
            raise ValueError(f"{self.display_name}: a uid must be a non-empty string, not {uid!r}")
        self.uid = uid

    def set_uid_hash(self, uid_hash: str) -> None:
        if not isinstance(uid_hash, str) or not _UID_HASH.fullmatch(uid_hash):
            raise ValueError(f"Node hash must be a 32 character String that describes a hex code. Found: {uid_hash!r}")
        self.uid_hash = uid_hash.lower()


class PartitionTransformation(Transformation):
    """The records of the input with another partitioning."""

    def __init__(self, input_: Transformation, partitioning: Partitioning) -> None:
        super().__init__(input_.output_type, (input_,))
        self.partitioning = partitioning


class UnionTransformation(Transformation):
    """The records of all inputs."""

    def __init__(self, inputs: Sequence[Transformation]) -> None:
        super().__init__(inputs[0].output_type, inputs)


class SideOutputTransformation(Transformation):
    """The records that the input's operator emits with this tag."""

    def __init__(self, input_: Transformation, tag_id: str, output_type: TypeInformation | None) -> None:
        super().__init__(output_type, (input_,))
        self.tag_id = tag_id
