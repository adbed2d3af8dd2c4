"""Reads file sources with Spark's own readers, so that projections and predicates of the plan reach the files.

They are used if they return exactly what our readers would: for Parquet and ORC files with types that both read alike.
Our own readers parse CSV and JSON in Python workers, because Spark's accept other texts as null, numbers and times. A
program that accepts the differences asks for Spark's readers (`flinkpy.spark.columns.text_files`).

Spark gets the paths of the program, directories as such, and lists them itself. So the plan for many files is the plan
for one. We list the files too, and compare their schemas.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import pyarrow as pa
from pyspark.sql import types as t

from flinkpy.common.watermark_strategy import WatermarkStrategy
from flinkpy.connector_api.source import Boundedness
from flinkpy.connectors.file_source import FileSource, is_visible
from flinkpy.formats.bad_records import FAIL
from flinkpy.formats.file_format import FileFormat
from flinkpy.formats.input_files import is_remote
from flinkpy.formats.orc_format import OrcFormat, open_orc
from flinkpy.formats.parquet_format import ParquetFormat, open_parquet
from flinkpy.formats.partitioned_format import DEFAULT_PARTITION, PartitionedFormat, is_partition, unescaped
from flinkpy.graph.operator_specs import SourceSpec
from flinkpy.records.lanes import arrow_schema
from flinkpy.spark.columns.functions import F
from flinkpy.spark.columns.hadoop_paths import hadoop_uri, is_seen_by_hadoop
from flinkpy.spark.columns.names import NotExpressible, castable, column, column_types, name_of, without_timestamps
from flinkpy.spark.columns.text_files import text_reader_of
from flinkpy.spark.stream_frame import TIMESTAMP_COLUMN

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from flinkpy.common.typeinfo import TypeInformation

#: The maximum number of paths in a plan, which Spark sends to all of its executors. A path has about 100 bytes.
_MAX_PATHS = 2_000
#: The maximum number of tables that one source reads. Each is a scan of the plan.
_MAX_TABLES = 32
#: The number of threads that read the footers of remote files. They mostly wait.
_FOOTER_THREADS = 32


@dataclass(frozen=True, slots=True)
class _Table:
    """Paths that one scan reads.

    Attributes:
        base_path: the directory above those with values of partition columns; None without partition columns.
    """

    paths: tuple[str, ...]
    base_path: str | None = None


#: The tables of sources that were checked, but not yet read. So the files are listed and opened once.
_CHECKED: WeakKeyDictionary[FileSource, list[_Table]] = WeakKeyDictionary()


def check_files(session: SparkSession | None, spec: SourceSpec) -> None:
    """Checks that `read_files` can read the source.

    Args:
        session: None before Spark runs. Then Spark counts as able to reach all file systems.

    Raises: NotExpressible, InputNotFoundError, InputFormatError.
    """
    source = _bounded_files(spec)
    event_time(spec.watermark_strategy, source.produced_type)
    column_types(source.produced_type)
    for path in source.paths:
        hadoop_uri(session, path)
    if session is None:
        _checked_tables(source)
    elif source not in _CHECKED:
        _CHECKED[source] = _checked_tables(source)


def read_files(session: SparkSession, spec: SourceSpec) -> DataFrame:
    """Returns the frame of a file source. Raises: NotExpressible, InputNotFoundError, InputFormatError."""
    source = _bounded_files(spec)
    time = event_time(spec.watermark_strategy, source.produced_type)
    tables = _CHECKED.pop(source, None) or _checked_tables(source)
    content = _content(source)
    partitions = _partition_names(source)
    fields = [t.StructField(name, kind) for name, kind in column_types(content.produced_type).items()]
    text = text_reader_of(content) if content.uses_spark_reader else None
    if text is not None:
        fields = text.fields([file for file in source.list_files() if file[1]])
    # The texts of partition columns have been checked, so Spark converts them like flinkpy.
    fields += [t.StructField(name, t.StringType()) for name in partitions]
    reader = session.read.schema(t.StructType(fields))
    reader = reader.format(_kind_of(content)[0]) if text is None else reader.format(text.kind).options(**text.options)
    # Names of files may contain characters that are special in patterns.
    reader = reader.option("__globPaths__", "false")
    frames = []
    for table in tables:
        if table.base_path is None:
            reader = reader.option("recursiveFileLookup", "true")
        else:
            reader = reader.option("basePath", hadoop_uri(session, table.base_path))
        frames.append(reader.load([hadoop_uri(session, path) for path in table.paths]))
    frame = reduce(lambda one, other: one.unionByName(other), frames)
    produced = arrow_schema(source.produced_type)
    assert produced is not None

    def value(name: str, kind: t.DataType) -> Column:
        if name in partitions:
            return _partition_value(source, name).cast(castable(kind)).alias(name)
        if text is not None:
            return text.value(name, kind)
        wanted = produced.field(name).type
        is_cut = pa.types.is_timestamp(wanted) and wanted.unit == "ms"
        return _in_milliseconds(name, kind) if is_cut else column(name)

    columns = [value(name, kind) for name, kind in column_types(source.produced_type).items()]
    return frame.select(*columns, without_timestamps() if time is None else time)


def _partition_value(source: FileSource, name: str) -> Column:
    """Returns the text of a partition column. For Spark the directory of null has always the same name."""
    file_format = source.file_format
    assert isinstance(file_format, PartitionedFormat)
    found = column(name)
    if file_format.default_name == DEFAULT_PARTITION:
        return found
    return F.when(found != F.lit(file_format.default_name), found)


def _bounded_files(spec: SourceSpec) -> FileSource:
    source = spec.source
    if not isinstance(source, FileSource) or source.boundedness is not Boundedness.BOUNDED:
        raise NotExpressible(f"a {type(source).__name__}")
    if source.addition is not None:
        raise NotExpressible(source.addition)
    _check_types(source)
    return source


def _check_types(source: FileSource) -> None:
    """Checks that the source converts values as Spark can. Raises: NotExpressible."""
    stored, wanted = arrow_schema(source.file_format.produced_type), arrow_schema(source.produced_type)
    assert stored is not None
    assert wanted is not None
    for name, kind in zip(wanted.names, wanted.types):
        found = stored.field(name).type
        if found != kind and not _drops_microseconds(found, kind):
            raise NotExpressible(f"column {name!r} of {kind} in files of {found}")


def _drops_microseconds(stored: pa.DataType, wanted: pa.DataType) -> bool:
    if not pa.types.is_timestamp(stored) or not pa.types.is_timestamp(wanted):
        return False
    return (stored.unit, wanted.unit) == ("us", "ms") and stored.tz == wanted.tz


def _in_milliseconds(name: str, kind: t.DataType) -> Column:
    """Returns a timestamp without its microseconds, which are dropped as Arrow does it: towards 1970."""
    micros = F.unix_micros(column(name).cast("timestamp"))
    return F.timestamp_millis(F.call_function("div", micros, F.lit(1000))).cast(castable(kind)).alias(name)


def _content(source: FileSource) -> FileFormat:
    """Returns the format of the files, without the columns of their directories."""
    file_format = source.file_format
    return file_format.file_format if isinstance(file_format, PartitionedFormat) else file_format


def _partition_names(source: FileSource) -> list[str]:
    file_format = source.file_format
    return file_format.partition_type.get_field_names() if isinstance(file_format, PartitionedFormat) else []


def _kind_of(content: FileFormat) -> tuple[str, Callable[[str], pa.Schema]]:
    """Returns Spark's name of the format, and a function that reads the schema of a file. Raises: NotExpressible."""
    if content.on_error != FAIL:
        raise NotExpressible("skipping records that cannot be read")
    if type(content) is ParquetFormat and content._is_case_sensitive:
        return "parquet", _parquet_schema
    if type(content) is OrcFormat:
        return "orc", lambda path: open_orc(path).schema
    hint = "; spark_reader=True lets Spark parse them" if content.has_spark_reader else ""
    raise NotExpressible(f"files of {type(content).__name__}{hint}")


def _parquet_schema(path: str) -> pa.Schema:
    file = open_parquet(path)
    try:
        return file.schema_arrow
    finally:
        file.close()


# -- what Spark lists --------------------------------------------------------------------------------------------------


def _checked_tables(source: FileSource) -> list[_Table]:
    """Returns the tables of a source. Raises: NotExpressible if Spark would find or read other records than we do."""
    content = _content(source)
    text = text_reader_of(content) if content.uses_spark_reader else None
    schema_of = _kind_of(content)[1] if text is None else None
    wanted = arrow_schema(content.produced_type)
    assert wanted is not None
    partitions = _partition_names(source)
    differing: list[str] = []

    def is_seen(name: str) -> bool:
        seen = is_visible(name)
        if (seen or is_partition(name, partitions)) != is_seen_by_hadoop(name):
            differing.append(name)
        return seen

    sized = [file for file in source.list_files(is_seen) if file[1]]
    files = [path for path, _ in sized]
    differing += [path for path in source.paths if not is_seen_by_hadoop(os.path.basename(path))]
    if differing:
        raise NotExpressible(f"files or directories with names like {differing[0]!r}")
    if not files:
        raise NotExpressible("no records in files")
    if len(set(files)) < len(files):
        raise NotExpressible("files that are read more than once")
    if schema_of is not None:
        for path, schema in _schemas(files, schema_of):
            _check_file(path, schema, wanted)
    elif text is not None:
        text.fields(sized)
    paths = _partitions_of(source, files) or source.paths
    tables = _tables(paths, files, partitions, wanted.names)
    if len(tables) > _MAX_TABLES or sum(len(table.paths) for table in tables) > _MAX_PATHS:
        raise NotExpressible(f"{len(source.paths)} single paths: give the directories in which the files are")
    return tables


def _partitions_of(source: FileSource, files: list[str]) -> list[str] | None:
    """Returns the directories of the partitions that are read; None for all, or if there are no partitions.

    Raises: NotExpressible.
    """
    file_format = source.file_format
    if not isinstance(file_format, PartitionedFormat):
        return None
    if file_format.default_name != DEFAULT_PARTITION and any(f"={DEFAULT_PARTITION}/" in path for path in files):
        raise NotExpressible(f"a partition {DEFAULT_PARTITION}, which is null for Spark only")
    if file_format.partitions is None:
        return None
    names = file_format.partition_type.get_field_names()
    found: dict[str, None] = {}
    for path in files:
        parts = path.split("/")
        last = max(place for place, part in enumerate(parts) if is_partition(part, names))
        found["/".join(parts[: last + 1])] = None
    return list(found)


def _schemas(files: list[str], schema_of: Callable[[str], pa.Schema]) -> Any:
    if not is_remote(files[0]):
        yield from ((path, schema_of(path)) for path in files)
        return
    with ThreadPoolExecutor(_FOOTER_THREADS, "footers") as threads:
        yield from zip(files, threads.map(schema_of, files))


def _tables(paths: Sequence[str], files: list[str], partitions: list[str], columns: list[str]) -> list[_Table]:
    """Returns the tables that the files belong to."""
    if not partitions:
        return [_Table(_directories_of(paths, files))]
    by_base: dict[str, list[str]] = {}
    for path in paths:
        by_base.setdefault(_base_path(path, partitions), []).append(path)
    for base in by_base:
        below = [path.removeprefix(base).split("/")[:-1] for path in files if path.startswith(base)]
        keys = {tuple(unescaped(part.partition("=")[0]) for part in parts if "=" in part) for parts in below}
        if len(keys) > 1:
            raise NotExpressible(f"files below {base} in directories of different partition columns")
        for names in keys:
            if len(set(names)) < len(names) or not set(partitions) <= set(names) or set(names) & set(columns):
                raise NotExpressible(f"directories below {base} of the partition columns {', '.join(names)}")
    return [_Table(tuple(each), base) for base, each in by_base.items()]


def _base_path(path: str, partitions: list[str]) -> str:
    """Returns the directory above those with values of the partition columns, or the path if it has none of them."""
    parts = path.split("/")
    first = next((place for place, part in enumerate(parts) if is_partition(part, partitions)), len(parts))
    return "/".join(parts[:first]) or "/"


def _directories_of(paths: Sequence[str], files: list[str]) -> tuple[str, ...]:
    """Returns the paths, with local directories in place of paths that name all files in them."""
    named = set(files)
    kept: dict[str, None] = {}
    is_whole: dict[str, bool] = {}
    for path in paths:
        directory = os.path.dirname(path)
        if len(paths) == 1 or is_remote(path) or os.path.isdir(path):
            kept[path] = None
            continue
        if directory not in is_whole:
            is_whole[directory] = directory != "/" and _has_no_other_files(directory, named)
        kept[directory if is_whole[directory] else path] = None
    return tuple(kept)


def _has_no_other_files(directory: str, named: set[str]) -> bool:
    """True if all files that Spark would read in a directory are named ones, or empty."""
    with os.scandir(directory) as entries:
        return all(
            entry.is_file() and (entry.path in named or not entry.stat().st_size)
            for entry in entries
            if is_seen_by_hadoop(entry.name)
        )


# -- what Spark reads alike --------------------------------------------------------------------------------------------


def _check_file(path: str, schema: pa.Schema, wanted: pa.Schema) -> None:
    """Raises: NotExpressible if our reader would convert the columns, or fail with a better error."""
    lower = [name.lower() for name in schema.names]
    for name, kind in zip(wanted.names, wanted.types):
        if schema.names.count(name) != 1 or lower.count(name.lower()) != 1:
            raise NotExpressible(f"{path} has {schema.names.count(name)} columns {name!r}")
        stored = schema.field(name).type
        if not _is_read_alike(stored, kind):
            raise NotExpressible(f"{path} has {stored} in column {name!r}, not {kind}")


def _is_read_alike(stored: pa.DataType, kind: pa.DataType) -> bool:
    if pa.types.is_timestamp(kind):
        # Spark has no timestamps in nanoseconds.
        return (
            pa.types.is_timestamp(stored) and stored.unit in ("ms", "us") and (stored.tz is None) == (kind.tz is None)
        )
    return stored in (kind, *_ALIKE.get(kind, ()))


_ALIKE: dict[pa.DataType, tuple[pa.DataType, ...]] = {
    pa.string(): (pa.large_string(), pa.string_view()),
    pa.binary(): (pa.large_binary(),),
}


def event_time(strategy: WatermarkStrategy | None, type_info: TypeInformation | None) -> Column | None:
    """Returns the column `__ts`, made from a column of the stream; None if records keep their timestamps.

    Raises: NotExpressible if there is a timestamp assigner.
    """
    if strategy is None or (strategy.timestamp_column is None and strategy.timestamp_assigner is None):
        return None
    if strategy.timestamp_column is None:
        raise NotExpressible("a timestamp assigner")
    columns = column_types(type_info)
    name = name_of(columns, strategy.timestamp_column)
    kind, values = columns[name], column(name)
    if isinstance(kind, t.ByteType | t.ShortType | t.IntegerType | t.LongType):
        time = values.cast("bigint")
    elif isinstance(kind, t.TimestampType | t.TimestampNTZType):
        # The session's time zone is UTC, so a timestamp without time zone counts as UTC, as in flinkpy.
        time = F.unix_millis(values.cast("timestamp"))
    else:
        raise NotExpressible(f"event time from {kind.simpleString()}")
    message = f"no event time from column {strategy.timestamp_column!r}: a record has no value there"
    return F.coalesce(time, F.raise_error(F.lit(message)).cast("bigint")).alias(TIMESTAMP_COLUMN)
