"""SinkTranslator: the operators between the last operator of a query and its sink.

They rename columns, check constraints, and bring the changes of a primary key into one subtask and in order.

Source: org.apache.flink.table.planner.plan.nodes.exec.common.CommonExecSink,
org.apache.flink.table.planner.plan.nodes.exec.stream.StreamExecSink.
Differs: rows have no timestamp beside their columns, so `table.exec.sink.rowtime-inserter` has nothing to insert.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from flinkpy.common.errors import TableProgramError
from flinkpy.graph import table_specs as specs
from flinkpy.graph.operator_specs import FieldKeySelector, OperatorSpec, SinkSpec
from flinkpy.graph.partitioning import HASH, Partitioning
from flinkpy.graph.transformation import OperatorTransformation, PartitionTransformation, Transformation
from flinkpy.sql.rex import InputRef
from flinkpy.sql.types.internal_type_info import InternalTypeInfo
from flinkpy.sql.types.logical_types import (
    MAX_LENGTH,
    BigIntType,
    BinaryType,
    CharType,
    LogicalType,
    RowField,
    RowType,
    VarBinaryType,
    VarCharType,
)
from flinkpy.table.planner.changelog.keys import smallest, upsert_keys
from flinkpy.table.planner.changelog.modes import INSERT_ONLY
from flinkpy.table.planner.physical import nodes as ph

if TYPE_CHECKING:
    from flinkpy.table.planner.physical.translation_settings import TranslationSettings

#: The name of the column with the watermark at which a change was made. No table has a column of this name.
_WATERMARK_COLUMN = "$watermark"


class SinkTranslator:
    """Translates one sink."""

    def __init__(self, node: ph.Sink, settings: TranslationSettings) -> None:
        self._node = node
        self._settings = settings
        fields = node.input.row_type.fields
        names = node.names if node.sink_row_type is None else node.sink_row_type.names
        #: The rows of the query under the names of the table.
        self._row_type = RowType(
            tuple(RowField(name, each.type) for name, each in zip(names, fields, strict=True)), nullable=False
        )

    def translate(self, below: Transformation) -> Transformation:
        """Returns the sink that reads `below`.

        Raises: TableProgramError if changes would get out of order on their way to the sink.
        """
        node = self._node
        transformation = self._keyed(self._enforced(self._renamed(below)))
        spec = SinkSpec(node.sink.sink(), input_types=(InternalTypeInfo(self._row_type),))
        made = OperatorTransformation(f"{node.table_name.rpartition('.')[2]}: Writer", spec, [transformation])
        made.description = node.description(infix=True)
        if node.sink.parallelism is not None:
            made.set_parallelism(node.sink.parallelism)
        elif is_alone([transformation]):
            made.force_non_parallel()
        return made

    @staticmethod
    def _operator(name: str, spec: OperatorSpec, below: Transformation, description: str) -> OperatorTransformation:
        made = OperatorTransformation(name, spec, [below])
        made.description = description
        if is_alone([below]):
            made.force_non_parallel()
        return made

    def _selector(self) -> FieldKeySelector:
        return FieldKeySelector(tuple(self._row_type.names[place] for place in self._node.primary_key))

    # -- columns -----------------------------------------------------------------------------------------------------

    def _renamed(self, below: Transformation) -> Transformation:
        given = self._node.input.row_type
        if given.names == self._row_type.names:
            return below
        spec = specs.CalcSpec(
            tuple(InputRef(each.type, place) for place, each in enumerate(given.fields)),
            None,
            self._settings.session,
            input_types=(InternalTypeInfo(given),),
            output_type=InternalTypeInfo(self._row_type),
        )
        return self._operator("Calc", spec, below, "")

    def _enforced(self, below: Transformation) -> Transformation:
        """Returns the rows with the constraints of the table's columns checked."""
        if self._node.sink_row_type is None:
            return below
        kinds = [each.type for each in self._node.sink_row_type.fields]
        not_null = tuple(place for place, kind in enumerate(kinds) if not kind.nullable)
        on_length = self._settings.on_length
        lengths = () if on_length == "IGNORE" else tuple(_lengths(kinds))
        if not not_null and not lengths:
            return below
        info = InternalTypeInfo(self._row_type)
        spec = specs.ConstraintEnforcerSpec(
            not_null,
            self._settings.on_null,
            lengths,
            on_length,
            tuple(each for each in not_null if each in self._node.primary_key),
            input_types=(info,),
            output_type=info,
        )
        parts = [("NotNullEnforcer", not_null), ("LengthEnforcer", tuple(column for column, _, _ in lengths))]
        shown = [f"{name}(fields=[{self._names(columns)}])" for name, columns in parts if columns]
        return self._operator("ConstraintEnforcer", spec, below, f"ConstraintEnforcer[{', '.join(shown)}]")

    def _names(self, columns: tuple[int, ...]) -> str:
        return ", ".join(self._row_type.names[each] for each in columns)

    # -- order -------------------------------------------------------------------------------------------------------

    def _keyed(self, below: Transformation) -> Transformation:
        """Returns the rows with the changes of each primary key in one subtask, where the sink needs that."""
        node = self._node
        parallelism = node.sink.parallelism
        input_parallelism = 1 if is_alone([below]) else self._settings.parallelism
        has_other = parallelism is not None and parallelism != input_parallelism
        if has_other and not node.primary_key and node.input.modify_kinds != INSERT_ONLY:
            raise TableProgramError(
                f"The sink for table '{node.table_name}' has a configured parallelism of {parallelism}, while the "
                f"input parallelism is {input_parallelism}. Since the configured parallelism is different from the "
                "input's parallelism and the changelog mode is not insert-only, a primary key is required but could "
                "not be found."
            )
        if node.upsert_materialize:
            return self._without_conflicts(below) if node.on_conflict in ("ERROR", "NOTHING") else self._in_order(below)
        mode = self._settings.keyed_shuffle
        is_parallel = (parallelism or input_parallelism) != 1
        if node.primary_key and is_parallel and (mode == "FORCE" or (mode == "AUTO" and has_other)):
            return PartitionTransformation(below, Partitioning(HASH, self._selector()))
        return below

    def _in_order(self, below: Transformation) -> Transformation:
        info = InternalTypeInfo(self._row_type)
        node, selector = self._node, self._selector()
        spec = specs.SinkMaterializeSpec(
            selector,
            node.primary_key,
            smallest(upsert_keys(node.input)) or (),
            self._settings.state_ttl_ms,
            input_types=(info,),
            output_type=info,
        )
        partitioned = PartitionTransformation(below, Partitioning(HASH, selector))
        made = OperatorTransformation("SinkMaterializer", spec, [partitioned])
        made.description = f"SinkMaterializer(pk=[{self._names(node.primary_key)}])"
        return made

    def _without_conflicts(self, below: Transformation) -> Transformation:
        node, selector = self._node, self._selector()
        info = InternalTypeInfo(self._row_type)
        column = RowField(_WATERMARK_COLUMN, BigIntType(nullable=False))
        timed = InternalTypeInfo(RowType((*self._row_type.fields, column), nullable=False))
        times = self._operator(
            "WatermarkTimestampAssigner",
            specs.WatermarkTimestampSpec(input_types=(info,), output_type=timed),
            below,
            "WatermarkTimestampAssigner",
        )
        spec = specs.ConflictMaterializeSpec(
            selector,
            node.primary_key,
            smallest(upsert_keys(node.input)) or (),
            node.on_conflict or "ERROR",
            self._settings.state_ttl_ms,
            input_types=(timed,),
            output_type=info,
        )
        partitioned = PartitionTransformation(times, Partitioning(HASH, selector))
        made = OperatorTransformation("ConflictMaterializer", spec, [partitioned])
        made.description = f"ConflictMaterializer(pk=[{self._names(node.primary_key)}], on=[{node.on_conflict}])"
        return made


def is_alone(inputs: list[Transformation]) -> bool:
    """True if all rows come from one subtask without an exchange. So what follows keeps the order of ORDER BY."""
    return bool(inputs) and all(isinstance(each, OperatorTransformation) and each.is_non_parallel for each in inputs)


def _lengths(kinds: list[LogicalType]) -> Iterator[tuple[int, int, bool]]:
    """Yields the column, the length, and whether shorter values are padded, of texts and bytes with a length."""
    for place, kind in enumerate(kinds):
        if isinstance(kind, (CharType, BinaryType)):
            yield place, kind.length, True
        elif isinstance(kind, (VarCharType, VarBinaryType)) and kind.length != MAX_LENGTH:
            yield place, kind.length, False
