"""PartitionedFormat: adds columns whose values are in the names of directories, as Hive lays out tables.

The files of such a table lie in directories like `year=2024/month=07`. `__HIVE_DEFAULT_PARTITION__` stands for null.
Characters that file systems do not allow, or that have a meaning in such names, are escaped as `%2F`.

Source: org.apache.flink.table.utils.PartitionPathUtils, org.apache.hadoop.hive.common.FileUtils.
"""

from __future__ import annotations

import copy
import datetime
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from flinkpy.common.errors import InputFormatError, UnsupportedOperationError
from flinkpy.common.typeinfo import RowTypeInfo, TypeInformation, Types
from flinkpy.formats.bad_records import FAIL
from flinkpy.formats.file_format import BulkFormat, FileBatchReader, FileFormat, FilePosition, FileSourceSplit
from flinkpy.formats.pruning import Bounds, may_be_true
from flinkpy.formats.row_types import project_row_type, row_type_of

if TYPE_CHECKING:
    import pyarrow as pa

    from flinkpy.formats.slicing import PlacedBadRecord
    from flinkpy.records.batch import Batch

#: The name that Hive gives to the partition of null and of the empty string.
DEFAULT_PARTITION = "__HIVE_DEFAULT_PARTITION__"
#: The characters that Hive escapes in names of partitions, beside control characters.
_ESCAPED = re.compile("[\x01-\x1f\x7f\"#%'*/:=?\\\\{\\[\\]^]")
_ESCAPE = re.compile("%([0-9A-Fa-f]{2})")
_INTEGER = re.compile(r"[+-]?[0-9]+")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def escaped(text: str) -> str:
    """Returns a text as a part of the name of a partition's directory."""
    return _ESCAPED.sub(lambda found: f"%{ord(found[0]):02X}", text)


def unescaped(text: str) -> str:
    """Returns the text that `escaped` was called with."""
    return _ESCAPE.sub(lambda found: chr(int(found[1], 16)), text)


def directory_name(column: str, value: Any, default_name: str = DEFAULT_PARTITION) -> str:
    """Returns the name of the directory of a partition. The value is one of a type that `partition_type_of` allows."""
    text = str(value).lower() if isinstance(value, bool) else "" if value is None else str(value)
    return f"{escaped(column)}={escaped(text) or default_name}"


def split_by_partition(
    columns: pa.RecordBatch, names: Sequence[str], default_name: str = DEFAULT_PARTITION
) -> list[tuple[str, Any]]:
    """Returns the directories of the records' partitions, and the positions of the records in each, in their order.

    Args:
        names: the partition columns.
        default_name: stands for null and the empty string.
    """
    import numpy as np
    import pyarrow.compute as pc

    numbers = np.zeros(columns.num_rows, np.int64)
    for name in names:
        encoded = pc.dictionary_encode(columns.column(columns.schema.get_field_index(name)), null_encoding="encode")
        numbers = numbers * max(1, len(encoded.dictionary)) + encoded.indices.to_numpy(zero_copy_only=False)
        # The numbers stay smaller than the number of records, so that they do not overflow.
        _, numbers = np.unique(numbers, return_inverse=True)
    order = np.argsort(numbers, kind="stable")
    found: dict[str, list[Any]] = {}
    for positions in np.split(order, np.flatnonzero(np.diff(numbers[order])) + 1):
        values = [columns.column(columns.schema.get_field_index(name))[int(positions[0])].as_py() for name in names]
        # Null and the empty string have one directory.
        directory = "/".join(directory_name(name, value, default_name) for name, value in zip(names, values))
        found.setdefault(directory, []).append(positions)
    return [
        (directory, each[0] if len(each) == 1 else np.sort(np.concatenate(each))) for directory, each in found.items()
    ]


def _integer_of(bits: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if _INTEGER.fullmatch(text) is None or not -(1 << bits - 1) <= int(text) < 1 << bits - 1:
            raise ValueError(text)
        return int(text)

    return parse


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(text)
    return text.lower() == "true"


def _date(text: str) -> datetime.date:
    if _DATE.fullmatch(text) is None:
        raise ValueError(text)
    return datetime.date.fromisoformat(text)


#: How the text of a value is parsed. Other types have several texts for one value, on which engines disagree.
_PARSERS: dict[TypeInformation, Callable[[str], Any]] = {
    Types.STRING(): str,
    Types.BOOLEAN(): _boolean,
    Types.BYTE(): _integer_of(8),
    Types.SHORT(): _integer_of(16),
    Types.INT(): _integer_of(32),
    Types.LONG(): _integer_of(64),
    Types.SQL_DATE(): _date,
}


def partition_type_of(description: Any) -> RowTypeInfo:
    """Returns the types of partition columns.

    Args:
        description: what `row_type_of` takes, or names, whose columns are then strings.

    Raises:
        UnsupportedOperationError: directories cannot have values of such a type.
    """
    if isinstance(description, list | tuple):
        description = {str(name): Types.STRING() for name in description}
    row_type = row_type_of(description)
    for name, kind in zip(row_type.get_field_names(), row_type.get_field_types()):
        if kind not in _PARSERS:
            raise UnsupportedOperationError(
                f"partition column {name!r} cannot be {kind!r}, only one of {', '.join(map(repr, _PARSERS))}: "
                "declare it as a string and convert it"
            )
    return row_type


def is_partition(directory: str, columns: Sequence[str]) -> bool:
    """True if this is the name of a directory for a value of one of the columns."""
    name, separator, _ = directory.partition("=")
    return bool(separator) and unescaped(name) in columns


class PartitionedFormat(BulkFormat):
    """Reads files by another format, and adds the partition columns of each file's directory.

    Args:
        file_format: reads the columns that are in the files.
        partition_type: the names and types of the partition columns.
        columns: the columns of the records, in this order; None for those of the files, then those of the directories.
        default_name: the text in names of directories that stands for null.

    Raises:
        UnsupportedOperationError: the records of the format have no named columns.
        ValueError: a column is both in the files and in the names of the directories.
    """

    #: A format that an earlier release has pickled has no such attribute.
    default_name = DEFAULT_PARTITION
    #: The values of the partitions that are read; None for all. An earlier release has pickled none either.
    partitions: frozenset[tuple[Any, ...]] | None = None

    def __init__(
        self,
        file_format: FileFormat,
        partition_type: RowTypeInfo,
        columns: Sequence[str] | None = None,
        default_name: str = DEFAULT_PARTITION,
    ) -> None:
        content = file_format.produced_type
        if not isinstance(content, RowTypeInfo):
            raise UnsupportedOperationError(
                f"partition columns need records with named columns, but {type(file_format).__name__} has {content!r}"
            )
        names = [*content.get_field_names(), *partition_type.get_field_names()]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"partition columns cannot also be columns of the files: {', '.join(map(repr, twice))}")
        self.file_format = file_format
        self.partition_type = partition_type
        self.default_name = default_name
        types = [*content.get_field_types(), *partition_type.get_field_types()]
        self.row_type = project_row_type(RowTypeInfo(types, names), names if columns is None else columns)
        self.on_error = file_format.on_error
        self.offsets_are_bytes = file_format.offsets_are_bytes
        self.predicate: Any = None
        #: Directory -> values of the partition columns. Most files of a listing are in a directory of a file before.
        self._known: tuple[str, tuple[Any, ...]] = ("", ())

    @property
    def produced_type(self) -> Any:
        return self.row_type

    def is_splittable(self, path: str) -> bool:
        return self.file_format.is_splittable(path)

    def with_on_error(self, on_error: Any) -> PartitionedFormat:
        changed = copy.copy(self)
        changed.file_format = self.file_format.with_on_error(on_error)
        changed.on_error = changed.file_format.on_error
        return changed

    def with_spark_reader(self) -> PartitionedFormat:
        changed = copy.copy(self)
        changed.file_format = self.file_format.with_spark_reader()
        return changed

    def projected_to(self, columns: list[str]) -> PartitionedFormat | None:
        content = self.file_format.produced_type.get_field_names()
        # A file tells how many records it has by a column.
        wanted = [name for name in content if name in columns] or content[:1]
        narrow = self.file_format if len(wanted) == len(content) else self.file_format.projected_to(wanted)
        if narrow is None:
            return None
        changed = copy.copy(self)
        changed.file_format = narrow
        changed.row_type = project_row_type(self.row_type, columns)
        return changed

    def filtered_by(self, predicate: Any) -> PartitionedFormat | None:
        # Without some of the files, the bad records would be others.
        if self.on_error != FAIL:
            return None
        changed = copy.copy(self)
        changed.file_format = self.file_format.filtered_by(predicate) or self.file_format
        changed.predicate = predicate
        return changed

    def limited_to(self, partitions: Sequence[Mapping[str, str | None]]) -> PartitionedFormat:
        """Returns the format that reads these partitions only.

        Args:
            partitions: for each of them the texts of its values by column; None for null.
        """
        columns = list(zip(self.partition_type.get_field_names(), self.partition_type.get_field_types()))
        changed = copy.copy(self)
        changed.partitions = frozenset(
            tuple(None if (text := each[name]) is None else _PARSERS[kind](text) for name, kind in columns)
            for each in partitions
        )
        return changed

    def open(self, split: FileSourceSplit, max_batch_rows: int) -> FileBatchReader:
        names = self.partition_type.get_field_names()
        values = dict(zip(names, self.values_of(split.path)))
        content = self.file_format.open(split, max_batch_rows)
        return _PartitionedReader(content, self.file_format.produced_type, self.row_type, values)

    def may_have_records(self, path: str) -> bool:
        """False if no record in the file, or in the files below the directory (`a/b=1/`), is needed.

        Raises: InputFormatError.
        """
        if self.predicate is None and self.partitions is None:
            return True
        known = self._values_by_name(path)
        if self.partitions is not None and not any(self._fits(each, known) for each in self.partitions):
            return False
        if self.predicate is None:
            return True

        def bounds_of(column: str) -> Bounds | None:
            if column not in known:
                return None
            value = known[column]
            return Bounds(value, value, has_nulls=value is None, has_values=value is not None, is_exact=True)

        return may_be_true(self.predicate, bounds_of)

    def _fits(self, partition: tuple[Any, ...], known: Mapping[str, Any]) -> bool:
        names = self.partition_type.get_field_names()
        return all(name not in known or known[name] == value for name, value in zip(names, partition))

    def values_of(self, path: str) -> tuple[Any, ...]:
        """Returns the values of the partition columns of a file.

        Raises: InputFormatError, which names the file, if its directories do not have them, or they have another type.
        """
        directory = path.rpartition("/")[0]
        if self._known[0] != directory:
            found = self._values_by_name(path)
            names = self.partition_type.get_field_names()
            missing = [name for name in names if name not in found]
            if missing:
                raise InputFormatError(
                    f"{path} is in no directory {missing[0]}=..., so it has no value of the partition column "
                    f"{missing[0]!r}",
                    details={"path": path, "column": missing[0]},
                )
            self._known = (directory, tuple(found[name] for name in names))
        return self._known[1]

    def _values_by_name(self, path: str) -> dict[str, Any]:
        types = dict(zip(self.partition_type.get_field_names(), self.partition_type.get_field_types()))
        found = {}
        for part in path.split("/")[:-1]:
            name, separator, text = part.partition("=")
            column = unescaped(name) if separator else ""
            if column in types:
                is_null = text == self.default_name
                found[column] = None if is_null else _value_of(path, column, unescaped(text), types[column])
        return found


def _value_of(path: str, column: str, text: str, kind: TypeInformation) -> Any:
    try:
        if not text:
            raise ValueError("an empty name")
        return _PARSERS[kind](text)
    except ValueError as error:
        raise InputFormatError(
            f"{path}: the value {text!r} of the partition column {column!r} is not {kind!r}",
            details={"path": path, "column": column},
        ) from error


class _PartitionedReader:
    """Reads one split. Thread: task thread."""

    def __init__(
        self, content: FileBatchReader, content_type: RowTypeInfo, row_type: RowTypeInfo, values: Mapping[str, Any]
    ) -> None:
        self._content = content
        self._content_type = content_type
        self._row_type = row_type
        self._values = values

    @property
    def batch_position(self) -> FilePosition | None:
        return getattr(self._content, "batch_position", None)

    @property
    def bad_records(self) -> Sequence[PlacedBadRecord]:
        return getattr(self._content, "bad_records", ())

    def read_batch(self) -> Batch | None:
        import pyarrow as pa

        from flinkpy.records.lanes import arrow_schema, to_columns

        batch = self._content.read_batch()
        if batch is None or not batch.num_rows:
            return batch
        columns: Any = to_columns(batch, self._content_type).values
        schema = arrow_schema(self._row_type)
        assert schema is not None
        arrays = [
            pa.repeat(pa.scalar(self._values[field.name], field.type), columns.num_rows)
            if field.name in self._values
            else columns.column(columns.schema.get_field_index(field.name))
            for field in schema
        ]
        return batch.with_values(pa.RecordBatch.from_arrays(arrays, schema=schema))

    def close(self) -> None:
        self._content.close()
