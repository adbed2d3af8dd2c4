"""The connectors of this benchmark alone: the side table of query 13, and a sink that writes all changes as text.

`benchmarks.nexmark.here` offers them as entry points, as an installed package does.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flinkpy.configuration.options import ConfigOption, OptionType
from flinkpy.connector_api.sink import SinkBase, SinkWriter, WriterContext
from flinkpy.records.batch import Batch
from flinkpy.sql.types.logical_types import RowType
from flinkpy.table.connectors.changelog_mode import ChangelogMode
from flinkpy.table.connectors.table_factory import FactoryContext, TableFactory
from flinkpy.table.connectors.table_sink import DynamicTableSink
from flinkpy.table.connectors.table_source import LookupFunction, LookupTableSource

_PATH: ConfigOption[Any] = ConfigOption("path", OptionType.STRING, None, "The folder of the files.")
_SIDE_ROWS = 10_000
_KINDS = pa.array(["+I", "-U", "+U", "-D"])


class ChangesTableFactory(TableFactory):
    """Writes every change as a line, see `benchmarks.nexmark.changes`."""

    identifier = "nexmark-changes"
    required_options = (_PATH,)

    def create_sink(self, context: FactoryContext) -> ChangesTableSink:
        return ChangesTableSink(context.options.get(_PATH))


@dataclass(frozen=True, slots=True)
class ChangesTableSink(DynamicTableSink):
    path: str

    @property
    def summary(self) -> str:
        return "Nexmark Changes"

    def changelog_mode(self, requested: ChangelogMode) -> ChangelogMode:
        return requested

    def sink(self) -> SinkBase:
        return ChangesSink(self.path)


class ChangesSink(SinkBase):
    def __init__(self, path: str) -> None:
        self._path = path

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return _ChangesWriter(Path(self._path), context.subtask_index)


class _ChangesWriter(SinkWriter):
    def __init__(self, folder: Path, subtask_index: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._file = open(folder / f"part-{subtask_index}", "w", encoding="utf-8", newline="\n")  # noqa: SIM115

    def write(self, batch: Batch) -> None:
        columns = batch.values
        kinds = np.zeros(batch.num_rows, np.int8) if batch.kinds is None else batch.kinds
        texts = [_KINDS.take(pa.array(kinds)), *map(_text, columns.columns)]
        self._file.write("\n".join(pc.binary_join_element_wise(*texts, "\t").to_pylist()) + "\n")

    def flush(self, end_of_input: bool) -> None:
        self._file.flush()

    def close(self) -> None:
        self._file.close()


def _text(column: pa.Array) -> pa.Array:
    kind = column.type
    if pa.types.is_timestamp(kind):
        text = pc.strftime(column.cast(pa.timestamp("ms")), "%Y-%m-%d %H:%M:%S")
    elif pa.types.is_string(kind):
        text = column
        for character, escaped in (("\\", "\\\\"), ("\t", "\\t"), ("\n", "\\n")):
            text = pc.replace_substring(text, character, escaped)
    else:
        text = column.cast(pa.string())
    return pc.fill_null(text, "\\N")


class SideInputTableFactory(TableFactory):
    """The numbers below 10,000, each with its text, in memory."""

    identifier = "nexmark-side-input"

    def create_source(self, context: FactoryContext) -> SideInput:
        return SideInput(context.table.resolved_schema.to_physical_row_type())


@dataclass(frozen=True, slots=True)
class SideInput(LookupTableSource):
    rows: RowType

    @property
    def summary(self) -> str:
        return "Nexmark Side Input"

    @property
    def produced_type(self) -> RowType:
        return self.rows

    def lookup_function(self, keys: tuple[int, ...]) -> LookupFunction:
        if keys != (0,):
            raise ValueError(f"rows are found by the column key, not by the columns {keys}")
        return SideInputLookup(self.rows.names)


class SideInputLookup(LookupFunction):
    def __init__(self, names: tuple[str, ...]) -> None:
        self._names = names

    def open(self, context: Any) -> None:
        self._values = pa.array(map(str, range(_SIDE_ROWS)))

    def lookup(self, keys: pa.RecordBatch) -> tuple[Any, pa.RecordBatch]:
        wanted = keys.column(0)
        found = np.flatnonzero(
            pc.fill_null(pc.and_(pc.greater_equal(wanted, 0), pc.less(wanted, _SIDE_ROWS)), False).to_numpy(
                zero_copy_only=False
            )
        )
        kept = wanted.take(pa.array(found))
        return found, pa.RecordBatch.from_arrays([kept, self._values.take(kept)], names=list(self._names))
