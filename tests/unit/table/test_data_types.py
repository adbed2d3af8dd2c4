"""DataTypes are displayed and compared like PyFlink's, and formats accept them."""

from __future__ import annotations

import pickle

import pytest

from flinkpy.common import Types
from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.datastream.formats.csv import CsvSchema
from flinkpy.datastream.formats.parquet import ParquetBulkWriters
from flinkpy.formats.row_types import row_type_of
from flinkpy.table import DataTypes
from flinkpy.table.types import DataType, DecimalType, RowField, RowType

NESTED = DataTypes.ROW(
    [
        DataTypes.FIELD("a", DataTypes.DECIMAL(10, 2)),
        DataTypes.FIELD("b", DataTypes.ROW([DataTypes.FIELD("c", DataTypes.STRING(), "text")])),
    ]
)


@pytest.mark.parametrize(
    ("data_type", "representation", "name"),
    [
        (DataTypes.BOOLEAN(), "BooleanType(true)", "BOOLEAN"),
        (DataTypes.TINYINT(False), "TinyIntType(false)", "TINYINT"),
        (DataTypes.BIGINT().not_null(), "BigIntType(false)", "BIGINT"),
        (DataTypes.DOUBLE(False).nullable(), "DoubleType(true)", "DOUBLE"),
        (DataTypes.NULL(), "NullType(true)", "NULL"),
        (DataTypes.CHAR(3), "CharType(3, true)", "CHAR"),
        (DataTypes.STRING(), "VarCharType(2147483647, true)", "VARCHAR"),
        (DataTypes.BYTES(False), "VarBinaryType(2147483647, false)", "VARBINARY"),
        (DataTypes.DECIMAL(10, 2), "DecimalType(10, 2, true)", "DECIMAL"),
        (DecimalType(), "DecimalType(10, 0, true)", "DECIMAL"),
        (DataTypes.DATE().bridged_to("java.sql.Date"), "DateType(true)", "DATE"),
        (DataTypes.TIME(), "TimeType(0, true)", "TIME"),
        (DataTypes.TIMESTAMP(3), "TimestampType(3, true)", "TIMESTAMP"),
        (DataTypes.TIMESTAMP_LTZ(), "LocalZonedTimestampType(6, true)", "LOCALZONEDTIMESTAMP"),
        (DataTypes.ARRAY(DataTypes.INT()), "ArrayType(IntType(true), true)", "ARRAY"),
        (DataTypes.MULTISET(DataTypes.INT()), "MultisetType(IntType(true), true)", "MULTISET"),
        (
            DataTypes.MAP(DataTypes.INT(), DataTypes.FLOAT(), False),
            "MapType(IntType(true), FloatType(true), false)",
            "MAP",
        ),
        (
            NESTED,
            (
                "RowType(RowField(a, DecimalType(10, 2, true), ...),"
                "RowField(b, RowType(RowField(c, VarCharType(2147483647, true), text)), ...))"
            ),
            "ROW",
        ),
    ],
)
def test_types_are_displayed_like_pyflinks(data_type: DataType, representation: str, name: str) -> None:
    assert (repr(data_type), str(data_type)) == (representation, name)
    assert pickle.loads(pickle.dumps(data_type)) == data_type


def test_types_are_equal_if_all_their_attributes_are() -> None:
    assert DataTypes.INT() == DataTypes.INT() != DataTypes.INT(False)
    assert DataTypes.INT() != DataTypes.BIGINT()
    assert DataTypes.DATE() != DataTypes.DATE().bridged_to("java.sql.Date")
    assert len({DataTypes.INT(), DataTypes.INT(), DataTypes.BIGINT()}) == 2


def test_fields_of_a_row_are_found_by_name_and_position() -> None:
    built = RowType().add("a", DataTypes.DECIMAL(10, 2)).add(NESTED[1])

    assert built == NESTED
    assert (built.field_names(), len(built), [field.name for field in built]) == (["a", "b"], 2, ["a", "b"])
    assert built["a"] == built[0] == RowField("a", DataTypes.DECIMAL(10, 2))
    assert built[:1] == DataTypes.ROW([built["a"]])
    with pytest.raises(KeyError, match="No RowField named c"):
        built["c"]


def test_each_column_type_has_a_type_info() -> None:
    row = DataTypes.ROW(
        [
            DataTypes.FIELD("i", DataTypes.SMALLINT()),
            DataTypes.FIELD("d", DataTypes.DECIMAL(4, 1)),
            DataTypes.FIELD("s", DataTypes.ARRAY(DataTypes.CHAR(2))),
            DataTypes.FIELD("m", DataTypes.MAP(DataTypes.INT(), DataTypes.BYTES())),
            DataTypes.FIELD("t", DataTypes.TIMESTAMP(3)),
            DataTypes.FIELD("z", DataTypes.TIMESTAMP_LTZ(3)),
        ]
    )
    expected = Types.ROW_NAMED(
        ["i", "d", "s", "m", "t", "z"],
        [
            Types.SHORT(),
            Types.DECIMAL(4, 1),
            Types.LIST(Types.STRING()),
            Types.MAP(Types.INT(), Types.PRIMITIVE_ARRAY(Types.BYTE())),
            Types.SQL_TIMESTAMP(),
            Types.INSTANT(),
        ],
    )
    assert row_type_of(row) == expected
    assert row_type_of({"i": DataTypes.INT()}) == Types.ROW_NAMED(["i"], [Types.INT()])
    ParquetBulkWriters.for_row_type(row)


def test_csv_schema_accepts_data_types() -> None:
    schema = (
        CsvSchema.builder()
        .add_number_column("n", DataTypes.DECIMAL(2, 0))
        .add_array_column("a", element_type=DataTypes.BOOLEAN())
        .build()
    )
    assert schema.row_type == Types.ROW_NAMED(["n", "a"], [Types.DECIMAL(2, 0), Types.LIST(Types.BOOLEAN())])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: DataTypes.DECIMAL(39, 0), "the precision of a decimal must be a whole number from 1 to 38, not 39"),
        (lambda: DataTypes.DECIMAL(2, 3), "the scale of a decimal must be a whole number from 0 to 2, not 3"),
        (lambda: DataTypes.CHAR(0), "the length of CHAR"),
        (lambda: DataTypes.TIMESTAMP(10), "the precision of TIMESTAMP"),
    ],
)
def test_values_out_of_bounds_are_refused(make: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()  # type: ignore[operator]


def test_types_of_the_table_api_raise_a_clear_error() -> None:
    with pytest.raises(UnsupportedOperationError, match=r"DataTypes\.INTERVAL belongs to the Table API"):
        DataTypes.INTERVAL(None)
    with pytest.raises(UnsupportedOperationError, match=r"DataTypes\.DAY belongs to the Table API"):
        DataTypes.DAY()
    with pytest.raises(UnsupportedOperationError, match=r"NullType\(true\): columns of files and messages cannot"):
        DataTypes.NULL().to_type_info()
    with pytest.raises(ImportError, match=r"flinkpy\.table has no SqlDialect: of PyFlink's Table API"):
        from flinkpy.table import SqlDialect  # type: ignore[attr-defined]  # noqa: F401
