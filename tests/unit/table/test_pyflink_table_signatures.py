"""Finished modules of the Table API have every name, signature, default and enum value of PyFlink's.

`pyflink_table_signatures.json` holds them as facts of PyFlink 2.3.0, written by `tools/gen_pyflink_api.py`.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyflink_signatures import difference_of, find, import_or_none

MODULES = {
    name.removeprefix("pyflink."): facts
    for name, facts in json.loads(Path(__file__).with_name("pyflink_table_signatures.json").read_text())[
        "modules"
    ].items()
}
#: The modules that are as PyFlink's.
FINISHED = (
    "table.data_view",
    "table.explain_detail",
    "table.expression",
    "table.expressions",
    "table.statement_set",
    "table.table",
    "table.table_descriptor",
    "table.table_pipeline",
    "table.udf",
    "table.window",
)
_INTERNAL = "internal: programs do not make it"
#: Members of finished modules that are not there, or not the same, with the reason.
DIFFERENT: dict[str, str] = {
    "table.expression:Expression.__getattr__": "makes the object of the JVM",
    "table.table:Table.get_schema": "deprecated: get_resolved_schema is there",
    "table.udf:FunctionContext.__init__": _INTERNAL,
    "table.udf:UserDefinedFunctionWrapper.__init__": _INTERNAL,
    "table.udf:UserDefinedTableFunctionWrapper.__init__": _INTERNAL,
    **{
        f"table.udf:PandasAggregateFunctionWrapper{member}": _INTERNAL
        for member in ("", ".__init__", ".open", ".eval", ".close")
    },
    "table.udf:udtf": "has func_type as a last parameter, for vectorised functions",
}


@pytest.mark.parametrize("module", FINISHED)
def test_module_has_the_members_of_the_pyflink_module(module: str) -> None:
    ours = import_or_none(module)
    problems = []
    for name, fact in MODULES[module]["members"].items():
        try:
            difference = difference_of(find(ours, name), name, fact)
        except AttributeError:
            difference = "is missing"
        if difference and f"{module}:{name}" not in DIFFERENT:
            problems.append(f"{name}: {difference}")
    assert problems == []
    assert set(MODULES[module]["exports"]) <= set(getattr(ours, "__all__", ()))


@pytest.mark.parametrize("member", DIFFERENT)
def test_different_member_is_different(member: str) -> None:
    module, _, name = member.partition(":")
    fact = MODULES[module]["members"][name]
    try:
        difference = difference_of(find(import_or_none(module), name), name, fact)
    except AttributeError:
        return
    assert difference, f"{member} is the same: it can leave the list"
