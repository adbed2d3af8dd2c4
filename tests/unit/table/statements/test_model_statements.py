"""CREATE, ALTER, DROP, SHOW and DESCRIBE MODEL, and ML_PREDICT in plans."""

from __future__ import annotations

from typing import Any

import pytest

from flinkpy.common.errors import TableProgramError, ValidationError
from flinkpy.table import EnvironmentSettings, ModelDescriptor, Schema, TableEnvironment


@pytest.fixture
def tables() -> TableEnvironment:
    made = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    made.execute_sql("CREATE TABLE t (x INT, y DOUBLE, s STRING) WITH ('connector' = 'datagen')")
    made.execute_sql(
        "CREATE MODEL m INPUT (a DOUBLE, b DOUBLE COMMENT 'second') OUTPUT (s DOUBLE) COMMENT 'it''s one' "
        "WITH ('provider' = 'python', 'model' = 'x.y', 'password' = 'p')"
    )
    return made


def listed(tables: TableEnvironment, statement: str) -> list[tuple[Any, ...]]:
    with tables.execute_sql(statement).collect() as rows:
        return [tuple(row) for row in rows]


def test_a_model_is_listed_described_and_shown(tables: TableEnvironment) -> None:
    assert listed(tables, "SHOW MODELS") == [("m",)]
    assert listed(tables, "SHOW MODELS LIKE 'x%'") == []
    assert listed(tables, "DESCRIBE MODEL m")[1] == ("b", "DOUBLE", "TRUE", "TRUE", "second")
    assert listed(tables, "SHOW CREATE MODEL m")[0][0] == (
        "CREATE MODEL `default_catalog`.`default_database`.`m`\n"
        "INPUT (`a` DOUBLE, `b` DOUBLE COMMENT 'second')\nOUTPUT (`s` DOUBLE)\nCOMMENT 'it''s one'\n"
        "WITH (\n  'provider' = 'python',\n  'model' = 'x.y',\n  'password' = '****'\n)\n"
    )


def test_a_model_is_altered_renamed_and_dropped(tables: TableEnvironment) -> None:
    tables.execute_sql("ALTER MODEL m SET ('model' = 'x.z')")
    tables.execute_sql("ALTER MODEL m RESET ('password')")
    tables.execute_sql("ALTER MODEL m RENAME TO m2")
    assert "'model' = 'x.z'\n" in listed(tables, "SHOW CREATE MODEL m2")[0][0]
    tables.execute_sql("DROP MODEL m2")
    tables.execute_sql("DROP MODEL IF EXISTS m2")
    with pytest.raises(ValidationError, match=r"Model with identifier .*m2.* does not exist"):
        tables.execute_sql("DROP MODEL m2")
    with pytest.raises(ValidationError, match="doesn't exist"):
        tables.execute_sql("ALTER MODEL m2 SET ('a' = 'b')")


def test_a_temporary_model_hides_one_of_the_catalog(tables: TableEnvironment) -> None:
    inputs = Schema.new_builder().column("q", "STRING").build()
    descriptor = ModelDescriptor.for_provider("python").option("model", "a.b").input_schema(inputs)
    tables.create_temporary_model("m", descriptor.output_schema(inputs).build())
    assert tables.list_models() == ["m"] and tables.list_temporary_models() == ["m"]
    assert listed(tables, "DESCRIBE MODEL m")[0][0] == "q"
    assert tables.drop_temporary_model("m") and not tables.drop_temporary_model("m")
    assert tables.drop_model("m")


def test_ml_predict_adds_columns_with_names_of_their_own(tables: TableEnvironment) -> None:
    tables.execute_sql("ALTER MODEL m RESET ('password')")
    query = "SELECT * FROM ML_PREDICT(INPUT => TABLE t, MODEL => MODEL m, ARGS => DESCRIPTOR(x, y))"
    assert tables.sql_query(query).get_resolved_schema().column_names == ("x", "y", "s", "s0")
    assert "MLPredictTableFunction(" in tables.explain_sql(query)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("TABLE t, MODEL n, DESCRIPTOR(x, y)", "Model with the identifier .*n' doesn't exist"),
        ("TABLE t, 'm', DESCRIPTOR(x, y)", "Second argument must be a model"),
        ("TABLE t, MODEL m, 'x'", "Third argument must be a descriptor"),
        ("TABLE t, MODEL m", "needs the argument args"),
        (
            "TABLE t, MODEL m, DESCRIPTOR(x)",
            r"Number of descriptor columns \(1\) does not match model input size \(2\)",
        ),
        (
            "TABLE t, MODEL m, DESCRIPTOR(x, z)",
            "Descriptor column 'z' not found in table columns. Available columns: x",
        ),
        ("TABLE t, MODEL m, DESCRIPTOR(x, s)", "column 's' type STRING cannot be assigned .* DOUBLE at position 1"),
        ("TABLE t, MODEL m, DESCRIPTOR(x, y), MAP['asinc', 'true']", "Unsupported options.*\n.*\n.*\n\nasinc"),
    ],
)
def test_an_argument_of_ml_predict_that_does_not_fit_is_named(
    tables: TableEnvironment, call: str, message: str
) -> None:
    tables.execute_sql("ALTER MODEL m RESET ('password')")
    with pytest.raises(ValidationError, match=message):
        tables.sql_query(f"SELECT * FROM ML_PREDICT({call})")


def test_ml_predict_takes_no_updates(tables: TableEnvironment) -> None:
    tables.execute_sql("ALTER MODEL m RESET ('password')")
    query = "SELECT * FROM ML_PREDICT((SELECT y, SUM(y) AS z FROM t GROUP BY y), MODEL m, DESCRIPTOR(y, z))"
    with pytest.raises(TableProgramError, match="MLPredictTableFunction doesn't support consuming update"):
        tables.explain_sql(query)


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("CREATE MODEL n INPUT (a INT) WITH ('provider' = 'python')", "OUTPUT is missing"),
        ("CREATE MODEL n INPUT (a INT) OUTPUT (b INT)", "must not be empty"),
        ("CREATE MODEL m INPUT (a INT) OUTPUT (b INT) WITH ('provider' = 'x')", "already exists"),
    ],
)
def test_a_wrong_definition_is_refused(tables: TableEnvironment, statement: str, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        tables.execute_sql(statement)


def test_an_unknown_provider_is_named_with_the_known_ones(tables: TableEnvironment) -> None:
    tables.execute_sql("CREATE MODEL n INPUT (a INT) OUTPUT (b INT) WITH ('provider' = 'opnai')")
    with pytest.raises(ValidationError, match=r"(?s)identifier 'opnai'.*openai\npython\n\nDid you mean 'openai'"):
        tables.sql_query("SELECT * FROM ML_PREDICT(TABLE t, MODEL n, DESCRIPTOR(x))")
