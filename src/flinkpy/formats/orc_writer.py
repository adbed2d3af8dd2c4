"""Writing ORC files. Source: org.apache.flink.orc.writer.OrcBulkWriterFactory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, BinaryIO

from flinkpy.common.errors import TypeMismatchError, UnsupportedOperationError
from flinkpy.common.typeinfo import RowTypeInfo
from flinkpy.formats.bulk_writer import BulkWriter, ColumnBulkWriterFactory

if TYPE_CHECKING:
    from flinkpy.records.batch import Batch

#: ORC's own properties, as in Flink's writer_properties, by what pyarrow calls them.
_PROPERTIES = {
    "orc.compress": "compression",
    "orc.stripe.size": "stripe_size",
    "orc.compress.size": "compression_block_size",
    "orc.row.index.stride": "row_index_stride",
}
#: As Flink's writer has it.
_DEFAULTS: dict[str, Any] = {"compression": "zlib"}


def orc_settings(properties: dict[str, str]) -> dict[str, Any]:
    """Raises: UnsupportedOperationError naming a property that is not known; ValueError for a wrong number."""
    settings = dict(_DEFAULTS)
    for key, value in properties.items():
        name = _PROPERTIES.get(key)
        if name is None:
            raise UnsupportedOperationError(
                f"ORC writer property {key!r} is not known; known are {', '.join(sorted(_PROPERTIES))}"
            )
        text = str(value).lower()
        settings[name] = ("uncompressed" if text == "none" else text) if name == "compression" else int(value)
    return settings


class OrcBulkWriterFactory(ColumnBulkWriterFactory):
    """Args:
    settings: of `pyarrow.orc.ORCWriter`.
    """

    def __init__(self, row_type: RowTypeInfo | None, settings: dict[str, Any] | None = None) -> None:
        super().__init__(row_type)
        self._settings = dict(_DEFAULTS if settings is None else settings)

    def create(self, file: BinaryIO, input_type: Any) -> BulkWriter:
        return _OrcBulkWriter(self, file, input_type, self._settings)


class _OrcBulkWriter:
    def __init__(
        self, factory: OrcBulkWriterFactory, file: BinaryIO, input_type: Any, settings: dict[str, Any]
    ) -> None:
        self._factory = factory
        self._file = file
        self._input_type = input_type
        self._settings = settings
        self._writer: Any = None

    def add(self, batch: Batch) -> None:
        import pyarrow as pa
        from pyarrow import orc

        columns = self._factory.columns_of(batch, self._input_type)
        if self._writer is None:
            self._writer = orc.ORCWriter(self._file, **self._settings)
        try:
            self._writer.write(pa.Table.from_batches([columns]))
        except pa.ArrowNotImplementedError as error:
            raise TypeMismatchError(f"ORC cannot hold the columns {columns.schema}: {error}") from error

    def finish(self) -> None:
        if self._writer is not None:
            self._writer.close()

    def discard(self) -> None:
        import pyarrow as pa

        writer, self._writer = self._writer, None
        if writer is not None:
            try:
                writer.close()
            except (OSError, ValueError, pa.ArrowException):
                # Most likely what made the file worthless before: a full disk.
                return
