"""Tables of a Hive metastore: what it says of them, reading, and writing with the registration of partitions."""

from __future__ import annotations

import json
import pickle
from contextlib import nullcontext
from types import SimpleNamespace

import cloudpickle
import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
import pytest
from connector_fakes import TestingWriterContext, read_splits

from flinkpy.common.errors import (
    ConfigurationError,
    InputNotFoundError,
    TypeMismatchError,
    UnsupportedOperationError,
)
from flinkpy.common.typeinfo import Types
from flinkpy.common.types import Row
from flinkpy.connectors.tables import hive
from flinkpy.connectors.tables.hive import HiveTable, arrow_type, layout_of
from flinkpy.connectors.tables.table_sink import TableSink
from flinkpy.connectors.tables.table_source import TableSource
from flinkpy.expressions.nodes import col
from flinkpy.records.batch import Batch
from flinkpy.records.lanes import rows_of
from flinkpy.streaming.operators.committables import END_OF_INPUT_ID, Committables

ttypes = pytest.importorskip("hive_metastore.ttypes")

PARQUET = "org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat"
ORC = "org.apache.hadoop.hive.ql.io.orc.OrcInputFormat"
METASTORE = {"type": "hive", "uri": "thrift://metastore:9083"}


class TestingMetastore:
    """A metastore with one table, db.t, behind the calls of its client that are used."""

    __test__ = False

    def __init__(self, location, columns, partition_columns=(), input_format=PARQUET, **parameters):
        def fields(pairs):
            return [ttypes.FieldSchema(name, kind) for name, kind in pairs]

        storage = ttypes.StorageDescriptor(cols=fields(columns), location=f"file:{location}", inputFormat=input_format)
        self.table = ttypes.Table("t", "db", sd=storage, partitionKeys=fields(partition_columns), parameters=parameters)
        self.partitions = {}

    def add(self, name, location=None):
        storage = SimpleNamespace(location=location or f"{self.table.sd.location}/{name}")
        values = [hive.unescaped(part.partition("=")[2]) for part in name.split("/")]
        self.partitions[name] = SimpleNamespace(values=values, sd=storage)

    def get_table(self, database, table):
        if (database, table) != ("db", "t"):
            raise ttypes.NoSuchObjectException(f"{database}.{table} table not found")
        return self.table

    def get_partition_names(self, database, table, maximum):
        return list(self.partitions)

    def get_partitions_by_names(self, database, table, names):
        return [self.partitions[name] for name in names]

    def add_partitions_req(self, request):
        assert request.ifNotExists
        for partition in request.parts:
            name = partition.sd.location.removeprefix(f"{self.table.sd.location}/")
            self.partitions.setdefault(name, partition)


@pytest.fixture
def use(monkeypatch):
    """Makes HiveTable talk to a TestingMetastore."""

    def use(metastore):
        def create(properties):
            assert properties["uri"] == METASTORE["uri"]
            # Thrift's errors cannot pass a generator, because they cannot be changed.
            return nullcontext(metastore)

        from pyiceberg.catalog.hive import HiveCatalog

        monkeypatch.setattr(HiveCatalog, "_create_hive_client", create)
        return metastore

    return use


def rows_read(source):
    splits = pickle.loads(cloudpickle.dumps(source)).list_splits(2)
    return sorted(tuple(row) for batch in read_splits(source, splits) for row in rows_of(batch, source.produced_type))


def write(sink, input_type, rows, job_id="0123456789abcdef0123456789abcdef-1"):
    """Runs a batch job of one writer; returns its committables and a function that commits them."""
    sink = pickle.loads(cloudpickle.dumps(sink))
    writer = sink.create_writer(TestingWriterContext(input_type=input_type, job_id=job_id))
    writer.write(Batch(rows))
    writer.flush(True)
    committables = writer.prepare_commit()
    writer.close()

    def commit():
        pending = Committables()
        pending.add(END_OF_INPUT_ID, committables)
        pending.commit_up_to(END_OF_INPUT_ID, sink.create_committer(), 0)

    return commit


def test_registered_partitions_are_read(use, tmp_path):
    columns, keys = [("id", "bigint"), ("name", "string")], [("year", "int"), ("town", "string")]
    metastore = use(TestingMetastore(tmp_path, columns, keys))
    for number, name in enumerate(["year=2024/town=a%2Fb", "year=2025/town=c", "year=2026/town=d"]):
        (tmp_path / name).mkdir(parents=True)
        pq.write_table(pa.table({"id": [number], "name": [f"n{number}"]}), tmp_path / name / "000000_0")
        if number < 2:
            metastore.add(name)
    source = TableSource.for_catalog("hive.db.t", METASTORE).build()
    assert rows_read(source) == [(0, "n0", 2024, "a/b"), (1, "n1", 2025, "c")]
    some = TableSource.for_catalog("hive.db.t", METASTORE).project("year", "id").build()
    assert rows_read(some) == [(2024, 0), (2025, 1)]
    pruned = source.filtered_by(col("year") > 2024)
    assert [path for path, _ in pruned.list_files()] == [f"{tmp_path}/year=2025/town=c/000000_0"]
    assert rows_read(source.projected_to(["town"])) == [("a/b",), ("c",)]


def test_tables_without_partitions_or_records_are_read(use, tmp_path):
    use(TestingMetastore(tmp_path, [("id", "int")], input_format=ORC))
    source = TableSource.for_catalog("hive.db.t", METASTORE).build()
    assert rows_read(source) == []
    pyarrow.orc.write_table(pa.table({"id": pa.array([1, 2], pa.int32())}), tmp_path / "000000_0")
    assert rows_read(source) == [(1,), (2,)]
    use(TestingMetastore(tmp_path, [("id", "int")], [("day", "date")]))
    without = TableSource.for_catalog("hive.db.t", METASTORE).build()
    assert rows_read(without) == rows_read(without.filtered_by(col("id") > 1)) == []
    assert without.infer_parallelism(4) == 1


def test_written_partitions_are_registered_and_commits_may_be_repeated(use, tmp_path):
    metastore = use(TestingMetastore(tmp_path, [("id", "bigint"), ("name", "string")], [("day", "date")]))
    builder = TableSink.for_catalog("hive.db.t", METASTORE)
    row_type = Types.ROW_NAMED(["day", "id"], [Types.SQL_DATE(), Types.INT()])
    days = [arrow.as_py() for arrow in pa.array([0, 1], pa.date32())]
    first = write(builder.build(), row_type, [Row(day=days[0], id=1), Row(day=days[1], id=2)])
    assert metastore.partitions == {}
    for _ in range(2):
        first()
    assert sorted(metastore.partitions) == ["day=1970-01-01", "day=1970-01-02"]
    source = TableSource.for_catalog("hive.db.t", METASTORE)
    assert rows_read(source.build()) == [(1, None, days[0]), (2, None, days[1])]
    write(builder.overwrite_partitions().build(), row_type, [Row(day=days[1], id=3)], "1" * 32 + "-1")()
    assert rows_read(source.build()) == [(1, None, days[0]), (3, None, days[1])]
    replace = write(builder.overwrite().build(), row_type, [Row(day=None, id=4)], "2" * 32 + "-1")
    replace()
    metastore.partitions.pop("day=__HIVE_DEFAULT_PARTITION__")  # the committer died before it registered it
    replace()
    assert rows_read(source.build()) == [(4, None, None)]


def test_records_that_do_not_fit_the_table_are_refused(use, tmp_path):
    use(TestingMetastore(tmp_path, [("id", "int")]))
    sink = TableSink.for_catalog("hive.db.t", METASTORE).build()
    with pytest.raises(TypeMismatchError, match=r"table hive\.db\.t has no column 'other'"):
        write(sink, Types.ROW_NAMED(["id", "other"], [Types.INT(), Types.INT()]), [Row(id=1, other=2)])
    with pytest.raises(TypeMismatchError, match="column 'id' is int32, and the stream has int64"):
        write(sink, Types.ROW_NAMED(["id"], [Types.LONG()]), [Row(id=1 << 40)])
    assert list(tmp_path.iterdir()) == []


def test_columns_are_spelled_as_spark_spells_them(tmp_path):
    schema = json.dumps({"type": "struct", "fields": [{"name": "userId"}, {"name": "Day"}]})
    half = len(schema) // 2
    for parameters in (
        {"spark.sql.sources.schema": schema},
        {
            "spark.sql.sources.schema.numParts": "2",
            "spark.sql.sources.schema.part.0": schema[:half],
            "spark.sql.sources.schema.part.1": schema[half:],
        },
    ):
        made = TestingMetastore(tmp_path, [("userid", "bigint")], [("day", "date")], **parameters)
        assert layout_of("t", made.table).row_type.get_field_names() == ["userId", "Day"]
    strange = TestingMetastore(tmp_path, [("col", "array<string>")], **{"spark.sql.sources.schema": schema})
    with pytest.raises(UnsupportedOperationError, match="types that Hive does not know"):
        layout_of("t", strange.table)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"input_format": "org.apache.hadoop.mapred.TextInputFormat"}, "only Parquet and ORC are supported"),
        ({"transactional": "true"}, "is transactional"),
        ({"spark.sql.sources.provider": "delta"}, r"is a Delta table: use for_path\('delta', 'file:"),
    ],
)
def test_other_tables_are_refused(tmp_path, changed, message):
    made = TestingMetastore(tmp_path, [("id", "int")], **changed)
    with pytest.raises(UnsupportedOperationError, match=rf"table a\.db\.t {'.*' + message}"):
        layout_of("a.db.t", made.table)
    made = TestingMetastore(tmp_path, [("id", "int")])
    made.table.tableType = "VIRTUAL_VIEW"
    with pytest.raises(UnsupportedOperationError, match="is a view"):
        layout_of("a.db.t", made.table)
    made.table.tableType, made.table.sd.bucketCols = "MANAGED_TABLE", ["id"]
    with pytest.raises(UnsupportedOperationError, match="is bucketed by id"):
        layout_of("a.db.t", made.table)


def test_a_partition_at_another_place_is_named(use, tmp_path):
    metastore = use(TestingMetastore(tmp_path, [("id", "int")], [("day", "string")]))
    metastore.add("day=x", location=f"{tmp_path}/elsewhere")
    with pytest.raises(UnsupportedOperationError, match=r"partition day=x lies at .*/elsewhere, which is not named"):
        TableSource.for_catalog("hive.db.t", METASTORE).build()


def test_wrong_names_and_settings_are_named(use, tmp_path):
    use(TestingMetastore(tmp_path, [("id", "int")]))
    with pytest.raises(InputNotFoundError, match=r"table hive\.db\.none does not exist"):
        TableSource.for_catalog("hive.db.none", METASTORE).build()
    with pytest.raises(ConfigurationError, match="give catalog, database and table"):
        TableSource.for_catalog("hive.t", METASTORE)
    with pytest.raises(ConfigurationError, match="embedded in Spark's driver can be reached by that driver only"):
        TableSource.for_catalog("spark_catalog.db.t", {"type": "hive"})
    with pytest.raises(ConfigurationError, match="is a table of Hive, which has no versions"):
        TableSource.for_catalog("hive.db.t", METASTORE).snapshot_id(1).build()
    with pytest.raises(ValueError, match="there is no column 'nothing'"):
        TableSource.for_catalog("hive.db.t", METASTORE).project("nothing").build()


def test_tables_of_iceberg_in_a_metastore_stay_tables_of_iceberg(use, tmp_path):
    use(TestingMetastore(tmp_path, [("id", "int")], table_type="ICEBERG"))
    found = HiveTable.of_catalog("hive.db.t", METASTORE).find()
    assert (found.format, found.name, found.properties) == ("iceberg", "hive.db.t", METASTORE)


def test_types_of_hive(tmp_path):
    assert arrow_type("struct<a:array<decimal(12, 2)>,b:map<string,timestamp>>", "c") == pa.struct(
        [("a", pa.list_(pa.decimal128(12, 2))), ("b", pa.map_(pa.string(), pa.timestamp("us")))]
    )
    assert arrow_type("varchar(10)", "c") == pa.string()
    assert arrow_type("decimal", "c") == pa.decimal128(10, 0)
    for text in ("uniontype<int,string>", "interval_day_time", "int)", "array<int,int>"):
        with pytest.raises(UnsupportedOperationError, match="column c has the type"):
            arrow_type(text, "c")
