"""The public API has PyFlink's names, signatures and enum values.

`pyflink_signatures.json` holds them for the classes that exist so far, as facts of PyFlink 2.3.0.
"""

from __future__ import annotations

import ast
import enum
import importlib
import inspect
import json
from pathlib import Path
from typing import Any

import pytest

FACTS = json.loads(Path(__file__).with_name("pyflink_signatures.json").read_text())
MEMBERS = [
    pytest.param(module, name, fact, id=f"{module}:{name}")
    for module, members in FACTS["modules"].items()
    for name, fact in members.items()
]


def find(module: str, name: str) -> Any:
    owner: Any = importlib.import_module(module)
    parts = name.split(".")
    for part in parts[:-1]:
        owner = getattr(owner, part)
    return inspect.getattr_static(owner, parts[-1]) if inspect.isclass(owner) else getattr(owner, parts[-1])


def parameters_of(member: Any) -> list[tuple[str, str, Any]]:
    kinds = {
        inspect.Parameter.VAR_POSITIONAL: "var_positional",
        inspect.Parameter.VAR_KEYWORD: "var_keyword",
        inspect.Parameter.KEYWORD_ONLY: "keyword",
    }
    function = member.__func__ if isinstance(member, (staticmethod, classmethod)) else member
    return [
        (p.name, kinds.get(p.kind, "positional"), p.default) for p in inspect.signature(function).parameters.values()
    ]


@pytest.mark.parametrize(("module", "name", "fact"), MEMBERS)
def test_member_is_as_pyflink_has_it(module: str, name: str, fact: dict[str, Any]) -> None:
    member = find(module, name)
    if "class" in fact:
        assert inspect.isclass(member)
    elif "value" in fact:
        assert (member.value if isinstance(member, enum.Enum) else member) == fact["value"]
    elif isinstance(member, property):
        assert name.startswith("ReduceFunctionWrapper."), "only a wrapper's method is the wrapped callable itself"
    else:
        check_signature(member, name, fact)


def check_signature(member: Any, name: str, fact: dict[str, Any]) -> None:
    kind = fact["kind"]
    assert isinstance(member, staticmethod) == (kind == "static")
    assert isinstance(member, classmethod) == (kind == "class")
    if kind == "async":
        assert inspect.iscoroutinefunction(member)
    ours = parameters_of(member)
    theirs = [tuple(parameter) for parameter in fact["parameters"]]
    is_constructor_with_java = name.endswith("__init__") and any(p[0].startswith("j_") for p in theirs)
    if is_constructor_with_java:
        theirs = [p for p in theirs if not p[0].startswith("j_")]
        known = {p[0] for p in theirs}
        ours = [p for p in ours if p[0] in known]
    assert [p[:2] for p in ours] == [p[:2] for p in theirs]
    for (parameter, _, default), (_, _, expected) in zip(ours, theirs):
        if expected is None:
            assert default is inspect.Parameter.empty, parameter
        else:
            try:
                value = ast.literal_eval(expected)
            except ValueError:
                continue  # a default made by a call
            assert default == value, parameter


def test_common_package_exports_what_pyflink_exports() -> None:
    package = importlib.import_module("flinkpy.common")

    assert set(package.__all__) == set(FACTS["public_names"]["common"])
    for name in package.__all__:
        assert getattr(package, name).__name__ == name


def test_datastream_package_exports_only_names_that_pyflink_exports() -> None:
    package = importlib.import_module("flinkpy.datastream")

    missing = set(FACTS["public_names"]["datastream"]) - set(package.__all__)
    assert set(package.__all__) <= set(FACTS["public_names"]["datastream"]) | {"CoFlatMapFunction"}
    later = {name for names in package._LATER.values() for name in names}
    assert missing == later
    for name in package.__all__:
        assert getattr(package, name).__name__ == name


def test_name_that_comes_later_says_so() -> None:
    package = importlib.import_module("flinkpy.datastream")

    with pytest.raises(AttributeError, match="windows are not available yet"):
        _ = package.WindowedStream
