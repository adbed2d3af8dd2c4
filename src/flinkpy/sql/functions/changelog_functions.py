"""ToChangelog and FromChangelog: changes as rows with a code of their kind, and the other way round.

Source: org.apache.flink.table.runtime.functions.ptf.{ToChangelogFunction, FromChangelogFunction}.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flinkpy.common.errors import TableRuntimeError
from flinkpy.common.types import RowKind

#: The columns of n rows, and int8[n], their RowKinds; None if all are insertions.
Changes = tuple[list[pa.Array], np.ndarray | None]


class RowProcess(Protocol):
    """A process table function with row semantics and without state. It is pickled with the job."""

    def process(self, columns: list[pa.Array], kinds: np.ndarray | None) -> Changes:
        """Returns the changes for some changes of the input. Raises: TableRuntimeError for values without a result."""
        ...


@dataclass(frozen=True)
class ToChangelog:
    """Puts the code of each change before its columns. All rows become insertions.

    Attributes:
        codes: the codes by RowKind. Changes of other kinds are dropped.
    """

    codes: tuple[tuple[RowKind, str], ...]

    def process(self, columns: list[pa.Array], kinds: np.ndarray | None) -> Changes:
        places = np.full(len(RowKind), -1, np.int32)
        for place, (kind, _) in enumerate(self.codes):
            places[kind.value] = place
        chosen = places[np.zeros(len(columns[0]), np.int8) if kinds is None else kinds]
        kept = np.flatnonzero(chosen >= 0)
        if len(kept) < len(chosen):
            chosen, columns = chosen[kept], [each.take(pa.array(kept)) for each in columns]
        codes = pa.array([code for _, code in self.codes], pa.string())
        return [codes.take(pa.array(chosen)), *columns], None


@dataclass(frozen=True)
class FromChangelog:
    """Makes the change of each row that a code in it stands for, and removes the code.

    Attributes:
        column: the column of the codes.
        kinds: the RowKinds by code.
    """

    column: int
    kinds: tuple[tuple[str, RowKind], ...]

    def process(self, columns: list[pa.Array], kinds: np.ndarray | None) -> Changes:
        codes = columns[self.column].cast(pa.string())
        known = pa.array([code for code, _ in self.kinds], pa.string())
        places = pc.index_in(codes, known)
        if places.null_count:
            code = codes[places.is_null().index(True).as_py()].as_py()
            if code is None:
                raise TableRuntimeError("Received NULL op code. Every changelog row must carry an operation code.")
            raise TableRuntimeError(
                f"Received invalid op code '{code}'. Defined op codes are: {', '.join(known.to_pylist())}.",
                details={"value": code},
            )
        found = np.array([kind.value for _, kind in self.kinds], np.int8)[places.to_numpy()]
        return [*columns[: self.column], *columns[self.column + 1 :]], found
