"""ColumnCondition: filters a batch by a condition over its columns.

The parts of a conjunction are computed one after the other. If few records are left, only these go to the next part,
with only the columns that are still needed. So if most records fail the first part, the other parts cost almost
nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from flinkpy.common.typeinfo import TypeInformation
from flinkpy.expressions.arrow import Evaluator
from flinkpy.expressions.nodes import Call, Expression, columns_in, conjunction, conjuncts, walk
from flinkpy.records.batch import Batch

#: The remaining records are copied if at most one in this many is left. Copying more costs more than it saves.
_LEFT_OUT_FROM = 2


class _Step(NamedTuple):
    condition: Evaluator
    #: The columns needed after this step; None for all.
    needed: list[str] | None


class ColumnCondition:
    """A compiled condition. Thread: task thread.

    Args:
        columns: the types of the columns of the batches, by name.
        needed: the columns that the remaining records must have; None for all.

    Raises: UserError, see `flinkpy.expressions.types.result_type`.
    """

    def __init__(
        self, condition: Expression, columns: Mapping[str, TypeInformation], needed: Iterable[str] | None
    ) -> None:
        later = None if needed is None else list(dict.fromkeys(needed))
        steps: list[_Step] = []
        for part in reversed(_independent_parts(condition)):
            steps.append(_Step(Evaluator([part], columns), later))
            later = None if later is None else list(dict.fromkeys([*columns_in(part), *later]))
        self._steps = steps[::-1]

    def holding(self, batch: Batch) -> Batch:
        """Returns the records for which the condition is true, in their order."""
        so_far: pa.BooleanArray | None = None
        last = self._steps[-1]
        for step in self._steps:
            condition = step.condition.evaluate(batch.values)[0]
            if so_far is not None:
                condition = pc.and_(so_far, condition)
            num_true = condition.true_count
            if step is not last and num_true * _LEFT_OUT_FROM > batch.num_rows:
                so_far = condition
                continue
            so_far = None
            columns = batch.values
            assert isinstance(columns, pa.RecordBatch)
            if step.needed:
                batch = batch.with_values(columns.select(step.needed))
            batch = _filtered(batch, condition, num_true)
            if not num_true:
                break
        return batch


def _filtered(batch: Batch, condition: pa.BooleanArray, num_true: int) -> Batch:
    columns = batch.values
    assert isinstance(columns, pa.RecordBatch)
    if num_true == batch.num_rows:
        return batch
    kept = columns.filter(condition)
    if batch.timestamps is None and batch.kinds is None:
        return Batch(kept)
    keep = condition.fill_null(False).to_numpy(zero_copy_only=False)
    return Batch(
        kept,
        None if batch.timestamps is None else batch.timestamps[keep],
        None if batch.kinds is None else batch.kinds[keep],
    )


def _independent_parts(condition: Expression) -> list[Expression]:
    """Returns the parts of a conjunction, in their order. Parts that share a computation form one part."""
    groups: list[tuple[set[object], list[Expression]]] = []
    for part in conjuncts(condition):
        calls: set[object] = {node.key() for node in walk(part) if isinstance(node, Call)}
        related = [group for group in groups if not group[0].isdisjoint(calls)]
        if not related:
            groups.append((calls, [part]))
            continue
        first = related[0]
        for group in related[1:]:
            groups.remove(group)
            first[0].update(group[0])
            first[1].extend(group[1])
        first[0].update(calls)
        first[1].append(part)
    joined = [conjunction(parts) for _, parts in groups]
    return [part for part in joined if part is not None]
