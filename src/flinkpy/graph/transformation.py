"""Transformations: what the user's calls build up, one object per call.

Operators do work; a partition, a union and a side output only say where records come from, and vanish when the
StreamGraph is made.

Source: org.apache.flink.api.dag.Transformation, org.apache.flink.streaming.api.transformations.
"""

from __future__ import annotations

import enum
import itertools
import re
from typing import TYPE_CHECKING

from flinkpy.common.parallelism import check_buffer_timeout, check_max_parallelism, check_parallelism
from flinkpy.common.typeinfo import PickledBytesTypeInfo, TypeInformation
from flinkpy.connector_api.source import Boundedness, SourceBase
from flinkpy.graph.operator_specs import (
    BroadcastProcessSpec,
    ColumnJoinSpec,
    KeyedBroadcastProcessSpec,
    KeyedCoProcessSpec,
    KeyedSpec,
    KeyedTwoInputSpec,
    OperatorSpec,
    SinkSpec,
    SourceSpec,
)
from flinkpy.graph.partitioning import Partitioning

if TYPE_CHECKING:
    from collections.abc import Sequence

#: What may run an operator in batch mode.
BATCH_BACKENDS = ("auto", "native", "spark")

_ids = itertools.count(1)
_UID_HASH = re.compile(r"[0-9a-fA-F]{32}")


class ChainingStrategy(enum.Enum):
    """ALWAYS: chain where possible. HEAD: only what follows. NEVER: neither side."""

    ALWAYS = "ALWAYS"
    HEAD = "HEAD"
    NEVER = "NEVER"


class Transformation:
    """Where a stream comes from. Compared by identity; `id` grows in the order of creation."""

    def __init__(self, output_type: TypeInformation | None, inputs: Sequence[Transformation]) -> None:
        self.id = next(_ids)
        #: None: pickled Python objects.
        self.output_type = None if isinstance(output_type, PickledBytesTypeInfo) else output_type
        self.inputs = tuple(inputs)


class OperatorTransformation(Transformation):
    """An operator with everything the user may set on it."""

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
        #: None: the environment's at the time the graph is made.
        self.parallelism: int | None = None
        #: Whether the parallelism is the environment's, which nobody asked for in particular.
        self.has_default_parallelism = False
        self.max_parallelism: int | None = None
        self.buffer_timeout_ms: int | None = None
        #: None: that of the inputs where they agree, else "default".
        self.slot_sharing_group: str | None = None
        self.chaining_strategy = ChainingStrategy.ALWAYS
        #: `native` or `spark` or `auto`, in batch mode; None: what the job says.
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
        """Inputs whose records must be partitioned by key."""
        if isinstance(self.spec, ColumnJoinSpec) and self.spec.is_broadcast:
            return ()
        if isinstance(self.spec, (KeyedCoProcessSpec, KeyedTwoInputSpec)):
            return (0, 1)
        return (0,) if isinstance(self.spec, KeyedSpec) else ()

    @property
    def broadcast_inputs(self) -> tuple[int, ...]:
        """Inputs of which every subtask must get every record."""
        if isinstance(self.spec, ColumnJoinSpec) and self.spec.is_broadcast:
            return (1,)
        return (1,) if isinstance(self.spec, (BroadcastProcessSpec, KeyedBroadcastProcessSpec)) else ()

    @property
    def is_bounded(self) -> bool:
        """Of a source: whether it ends."""
        source = getattr(self.spec, "source", None)
        return isinstance(source, SourceBase) and source.boundedness is Boundedness.BOUNDED

    @property
    def display_name(self) -> str:
        """As it stands in the names of tasks."""
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
        """Whether it can have one subtask only."""
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
    """The input's records, partitioned in another way."""

    def __init__(self, input_: Transformation, partitioning: Partitioning) -> None:
        super().__init__(input_.output_type, (input_,))
        self.partitioning = partitioning


class UnionTransformation(Transformation):
    """The records of all inputs."""

    def __init__(self, inputs: Sequence[Transformation]) -> None:
        super().__init__(inputs[0].output_type, inputs)


class SideOutputTransformation(Transformation):
    """What the input's operator emits with this tag."""

    def __init__(self, input_: Transformation, tag_id: str, output_type: TypeInformation | None) -> None:
        super().__init__(output_type, (input_,))
        self.tag_id = tag_id
