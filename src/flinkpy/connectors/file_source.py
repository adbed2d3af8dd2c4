"""FileSource: reads a fixed set of files with a format.

The paths are local ones that every process of the cluster sees alike (a local disk on one host, a network mount on
several). They are listed when the job starts, in the JobMaster.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from flinkpy.common.errors import InputNotFoundError, UnsupportedOperationError
from flinkpy.connector_api.source import (
    Boundedness,
    SourceBase,
    SourceReader,
    SourceReaderContext,
    SplitEnumerator,
    SplitEnumeratorContext,
)
from flinkpy.connectors.split_enumerator import StaticSplitEnumerator
from flinkpy.connectors.split_reader import OpenSplit, SequentialSplitReader
from flinkpy.formats.csv_format import CsvFormat, CsvOptions, HeaderMode
from flinkpy.formats.file_format import BulkFormat, FileFormat, FileSourceSplit, StreamFormat
from flinkpy.formats.input_files import local_path, not_found_error
from flinkpy.formats.row_types import project_row_type, row_type_of

#: A file is split into about this many parts per subtask, so that they finish at about the same time ...
SPLITS_PER_SUBTASK = 8
#: ... of at least so much that the request for a split is a small part of the time to read it ...
MIN_SPLIT_BYTES = 1 << 20
#: ... and at most so much that a restarted subtask, once it has checkpoints, has little to read again.
MAX_SPLIT_BYTES = 32 << 20


class FileEnumeratorProvider:
    """Which files may be read by several subtasks at a time."""

    def __init__(self, splittable: bool) -> None:
        self._splittable = splittable

    @property
    def is_splittable(self) -> bool:
        return self._splittable

    @staticmethod
    def default_splittable_file_enumerator() -> FileEnumeratorProvider:
        """Those whose format allows it."""
        return FileEnumeratorProvider(True)

    @staticmethod
    def default_non_splittable_file_enumerator() -> FileEnumeratorProvider:
        """None: a file is one split."""
        return FileEnumeratorProvider(False)


class FileSplitAssignerProvider:
    """In which order subtasks are given splits. There is one: the subtask that asks gets the next."""

    @staticmethod
    def locality_aware_split_assigner() -> FileSplitAssignerProvider:
        """Local files have no places to prefer, so this is the order of the paths."""
        return FileSplitAssignerProvider()


class FileSource(SourceBase):
    """Reads all files under the paths once. Build it with `for_record_stream_format`, `for_bulk_file_format`, `for_csv`
    or `for_parquet`.

    A directory stands for all files below it, except those whose name, or a directory's name on the way, starts with a
    dot or an underscore.

    Source: org.apache.flink.connector.file.src.FileSource.
    """

    def __init__(self, file_format: FileFormat, paths: Sequence[str], is_splittable: bool = True) -> None:
        if not paths:
            raise ValueError("FileSource needs at least one path")
        self._format = file_format
        self._paths = tuple(map(local_path, paths))
        self._is_splittable = is_splittable

    @staticmethod
    def for_record_stream_format(stream_format: StreamFormat, *paths: str) -> FileSourceBuilder:
        """Files that are read record by record: text lines, CSV."""
        if not isinstance(stream_format, StreamFormat):
            raise TypeError(f"{stream_format!r} is not a StreamFormat")
        return FileSourceBuilder(stream_format, paths)

    @staticmethod
    def for_bulk_file_format(bulk_format: BulkFormat, *paths: str) -> FileSourceBuilder:
        """Files that are read in blocks of records: Parquet."""
        if not isinstance(bulk_format, BulkFormat):
            raise TypeError(f"{bulk_format!r} is not a BulkFormat")
        return FileSourceBuilder(bulk_format, paths)

    @staticmethod
    def for_csv(
        *paths: str,
        schema: Any = None,
        columns: Sequence[str] | None = None,
        delimiter: str = ",",
        null_values: Sequence[str] = (),
        header: bool = True,
        newlines_in_values: bool = False,
    ) -> FileSource:
        """CSV files as typed columns. Beyond PyFlink.

        Args:
            schema: `Types.ROW_NAMED(...)`, a `pyarrow.Schema`, or a dict from column name to type. With a header it may
                name some of the columns, in any order. None: the types are told from the first megabyte of the first
                file, which must be readable here; a later value that does not fit them fails the job, so give a
                schema where the beginning does not show what follows.
            columns: those to read, in this order; the others are not converted, which saves time. None: all.
            null_values: fields that mean null, e.g. `("NA",)`. Where any are given, an empty field is null too, also
                in a STRING column; where none are, it is null in all columns but those.
            header: the first line of each file names its columns.
            newlines_in_values: quoted fields may contain newlines; then a file is not split among subtasks.

        Raises:
            InputNotFoundError, InputFormatError: without `schema`, about the first file.
            ValueError: `columns` names one that the schema has not.
        """
        mode = HeaderMode.USE if header else HeaderMode.NONE
        options = CsvOptions(
            delimiter, null_values=tuple(null_values), header=mode, newlines_in_values=newlines_in_values
        )
        if schema is None:
            from flinkpy.formats.csv_reader import infer_row_type

            first, size_bytes = _first_file(paths)
            row_type = infer_row_type(first, options, size_bytes)
        else:
            row_type = row_type_of(schema)
        if columns is not None:
            if not header:
                options = replace(options, file_columns=tuple(row_type.get_field_names()))
            row_type = project_row_type(row_type, columns)
        return FileSource(CsvFormat(row_type, options), paths)

    @staticmethod
    def for_parquet(*paths: str, columns: Sequence[str] | None = None) -> FileSource:
        """Parquet files as typed columns, all or some of them. Beyond PyFlink.

        The types are those of the first file, which must be readable here; the others must have such columns.
        """
        from flinkpy.formats.parquet_format import ParquetFormat, parquet_row_type

        first, _ = _first_file(paths)
        return FileSource(ParquetFormat(parquet_row_type(first, None if columns is None else list(columns))), paths)

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED

    @property
    def produced_type(self) -> Any:
        return self._format.produced_type

    def create_enumerator(self, context: SplitEnumeratorContext) -> SplitEnumerator:
        return StaticSplitEnumerator(context, lambda: self.list_splits(context.parallelism), blocking=True)

    def create_reader(self, context: SourceReaderContext) -> SourceReader:
        return _FileReader(context, self._format)

    def list_splits(self, parallelism: int) -> list[FileSourceSplit]:
        """The splits of all files, in the order of the paths; blocks.

        Raises:
            InputNotFoundError: a path is missing or may not be read.
        """
        files = [found for path in self._paths for found in list_files(path)]
        total = sum(size_bytes for _, size_bytes in files)
        wanted = total // (SPLITS_PER_SUBTASK * parallelism)
        split_bytes = min(max(wanted, MIN_SPLIT_BYTES), MAX_SPLIT_BYTES)
        splits: list[FileSourceSplit] = []
        for path, size_bytes in files:
            splittable = self._is_splittable and self._format.is_splittable(path)
            # Equal parts: a rest of a few bytes is not worth a split.
            parts = max(1, size_bytes // split_bytes) if splittable else min(1, size_bytes)
            for part in range(parts if size_bytes else 0):
                start, end = size_bytes * part // parts, size_bytes * (part + 1) // parts
                splits.append(FileSourceSplit(str(len(splits) + 1), path, start, end - start, size_bytes))
        return splits

    def __repr__(self) -> str:
        return f"FileSource({', '.join(self._paths)})"


class FileSourceBuilder:
    """Builds a FileSource."""

    def __init__(self, file_format: FileFormat, paths: Sequence[str]) -> None:
        self._format = file_format
        self._paths = paths
        self._is_splittable = True

    def monitor_continuously(self, discovery_interval: Any) -> FileSourceBuilder:
        raise UnsupportedOperationError(
            "FileSource.monitor_continuously is not there yet: use process_static_file_set()"
        )

    def process_static_file_set(self) -> FileSourceBuilder:
        """Read the files that are there when the job starts, then end: the default."""
        return self

    def set_file_enumerator(self, file_enumerator: FileEnumeratorProvider) -> FileSourceBuilder:
        self._is_splittable = file_enumerator.is_splittable
        return self

    def set_split_assigner(self, split_assigner: FileSplitAssignerProvider) -> FileSourceBuilder:
        if not isinstance(split_assigner, FileSplitAssignerProvider):
            raise TypeError(f"{split_assigner!r} is not a FileSplitAssignerProvider")
        return self

    def build(self) -> FileSource:
        return FileSource(self._format, self._paths, self._is_splittable)


class _FileReader(SequentialSplitReader):
    def __init__(self, context: SourceReaderContext, file_format: FileFormat) -> None:
        super().__init__(context)
        self._format = file_format

    def open_split(self, split: FileSourceSplit) -> OpenSplit:
        return self._format.open(split, self._context.max_batch_rows)


def list_files(path: str) -> list[tuple[str, int]]:
    """The readable files at or below `path` with their sizes, in the order of their names.

    Raises:
        InputNotFoundError: something is missing or may not be read.
    """

    def fail(error: OSError) -> None:
        raise not_found_error(error.filename or path, error) from error

    if not os.path.isdir(path):
        return [(path, _readable_size(path))]
    found = []
    for directory, subdirectories, names in os.walk(path, onerror=fail):
        subdirectories[:] = sorted(filter(_is_visible, subdirectories))
        for name in sorted(filter(_is_visible, names)):
            file = os.path.join(directory, name)
            found.append((file, _readable_size(file)))
    return found


def _readable_size(path: str) -> int:
    try:
        size_bytes = os.stat(path).st_size
    except OSError as error:
        raise not_found_error(path, error) from error
    if not os.access(path, os.R_OK):
        raise InputNotFoundError(f"input {path}: Permission denied", details={"path": path})
    return size_bytes


def _is_visible(name: str) -> bool:
    return not name.startswith((".", "_"))


def _first_file(paths: Sequence[str]) -> tuple[str, int]:
    if not paths:
        raise ValueError("FileSource needs at least one path")
    for path in paths:
        for file, size_bytes in list_files(local_path(path)):
            if size_bytes:
                return file, size_bytes
    raise InputNotFoundError(f"no file with any content in {', '.join(paths)}", details={"path": paths[0]})
