"""The public API has every name, signature, default and enum value of PyFlink's `common`, `datastream` and `metrics`.

`pyflink_signatures.json` holds them as facts of PyFlink 2.3.0, written by `tools/gen_pyflink_api.py`. Where flinkpy is
not the same is in `pyflink_deviations.py`, with what happens instead.
"""

from __future__ import annotations

import ast
import enum
import importlib
import importlib.util
import inspect
import json
from pathlib import Path
from typing import Any

import pytest
from pyflink_deviations import DECLARED_OTHERWISE, DEVIATIONS, IN_PROGRESS, Deviation

MODULES = {
    name.removeprefix("pyflink."): facts
    for name, facts in json.loads(Path(__file__).with_name("pyflink_signatures.json").read_text())["modules"].items()
}

#: Names of contracts that have another name where they are defined.
ALIASES = {"Source", "Sink"}

_KINDS = {
    inspect.Parameter.VAR_POSITIONAL: "*",
    inspect.Parameter.VAR_KEYWORD: "**",
    inspect.Parameter.KEYWORD_ONLY: "keyword",
}


@pytest.mark.parametrize("module", MODULES)
def test_module_exports_what_pyflink_exports(module: str) -> None:
    ours = import_or_none(module)
    if ours is None:
        assert module in IN_PROGRESS
        return
    theirs = set(MODULES[module]["exports"])
    # A lazy package lists its future members, and `dir` would not ask for it.
    exported = {name for name in theirs if hasattr(ours, name)}

    assert exported == theirs or module in IN_PROGRESS, theirs - exported
    for name in exported:
        if name not in ALIASES:
            assert getattr(getattr(ours, name), "__name__", name) == name
    if theirs and hasattr(ours, "__all__"):
        assert theirs - set(ours.__all__) == set() or module in IN_PROGRESS
        assert all(hasattr(ours, name) for name in ours.__all__), "members beyond PyFlink's exist too"


@pytest.mark.parametrize("module", MODULES)
def test_module_has_the_members_of_the_pyflink_module(module: str) -> None:
    ours = import_or_none(module)
    if ours is None:
        assert module in IN_PROGRESS, f"there is no flinkpy.{module}"
        return
    problems = []
    for name, fact in MODULES[module]["members"].items():
        if f"{module}:{name}" in DECLARED_OTHERWISE:
            continue
        try:
            member = find(ours, name)
        except AttributeError:
            if module not in IN_PROGRESS:
                problems.append(f"{name} is missing")
            continue
        difference = difference_of(member, name, fact)
        if difference and not (difference == "is missing" and module in IN_PROGRESS):
            problems.append(f"{name}: {difference}")

    assert problems == []


@pytest.mark.parametrize("deviation", DEVIATIONS, ids=lambda deviation: deviation.members[0])
def test_documented_deviation_is_true(deviation: Deviation) -> None:
    deviation.check()


def test_deviations_name_members_that_pyflink_has() -> None:
    named = {member for deviation in DEVIATIONS for member in deviation.members} | DECLARED_OTHERWISE
    known = {f"{module}:{name}" for module, facts in MODULES.items() for name in facts["members"]}

    assert named - known == set()
    assert set(IN_PROGRESS) <= set(MODULES)


@pytest.mark.parametrize("member", sorted(DECLARED_OTHERWISE))
def test_differently_declared_method_takes_the_same_arguments(member: str) -> None:
    module, _, name = member.partition(":")
    ours = importlib.import_module(f"flinkpy.{module}")
    fact = MODULES[module]["members"][name]
    if name.endswith("__") and not name.endswith("__init__"):
        return  # `test_documented_deviation_is_true` checks it
    *owners, last = name.split(".")
    for owner in owners:
        ours = getattr(ours, owner)
    found = inspect.getattr_static(ours, last)
    if isinstance(found, property) or "j_" in fact:
        return
    theirs = parse_parameters(fact.partition(" (")[2].removesuffix(")"))
    if owners[-1] in ALIASES:
        return  # a class to derive from
    inspect.signature(found).bind(**{parameter: None for parameter, kind, _ in theirs if kind in ("", "keyword")})


def import_or_none(module: str) -> Any:
    """Imports the module. Returns None if it does not exist, and raises if its import fails."""
    name = f"flinkpy.{module}"
    parent = name.rpartition(".")[0]
    if parent != "flinkpy" and import_or_none(parent.removeprefix("flinkpy.")) is None:
        return None
    return importlib.import_module(name) if importlib.util.find_spec(name) else None


def find(module: Any, name: str) -> Any:
    owner: Any = module
    *owners, last = name.split(".")
    for part in owners:
        owner = getattr(owner, part)
    return inspect.getattr_static(owner, last) if inspect.isclass(owner) else getattr(owner, last)


def difference_of(member: Any, name: str, fact: str) -> str | None:
    """Describes the difference between a member and its recorded form, or returns None if they agree."""
    kind, _, parameters = fact.partition(" (")
    if fact == "class":
        return None if inspect.isclass(member) else "is not a class"
    if fact == "property":
        return None if isinstance(member, property) else "is not a property"
    if fact.startswith("="):
        value = member.value if isinstance(member, enum.Enum) else member
        return None if fact in ("=", f"= {value!r}") else f"is {value!r}, not {fact[2:]}"
    if name.endswith("__") and not name.endswith("__init__"):
        return (
            None if callable(member) and member is not getattr(object, name.rpartition(".")[2], None) else "is missing"
        )
    return difference_of_signature(member, name, kind, parameters.removesuffix(")"))


def difference_of_signature(member: Any, name: str, kind: str, parameters: str) -> str | None:
    is_async = kind.startswith("async ")
    kind = kind.removeprefix("async ")
    if isinstance(member, staticmethod) != (kind == "static") or isinstance(member, classmethod) != (kind == "class"):
        return f"is not {kind}"
    function = member.__func__ if isinstance(member, (staticmethod, classmethod)) else member
    if inspect.iscoroutinefunction(function) != is_async:
        return "is async here or there only"
    ours = [
        (parameter.name, _KINDS.get(parameter.kind, ""), parameter.default)
        for parameter in inspect.signature(function).parameters.values()
    ]
    theirs = parse_parameters(parameters)
    if name.endswith("__init__") and any(parameter[0].startswith("j_") for parameter in theirs):
        if theirs[1][0].startswith("j_") and theirs[1][2] is None:
            return None  # programs do not call it: PyFlink makes such objects around Java ones
        theirs = [parameter for parameter in theirs if not parameter[0].startswith("j_")]
        known = {parameter[0] for parameter in theirs}
        ours = [parameter for parameter in ours if parameter[0] in known]
    if [parameter[:2] for parameter in ours] != [parameter[:2] for parameter in theirs]:
        return f"has the parameters {[p[0] for p in ours]}, not ({parameters})"
    for (parameter, _, default), (_, _, expected) in zip(ours, theirs, strict=True):
        if expected is None and default is not inspect.Parameter.empty:
            return f"{parameter} has a default"
        if expected is not None:
            try:
                value = ast.literal_eval(expected)
            except ValueError:
                continue  # a default made by a call
            if default is inspect.Parameter.empty or default != value:
                return f"{parameter} has the default {default!r}, not {value!r}"
    return None


def parse_parameters(text: str) -> list[tuple[str, str, ast.expr | None]]:
    """Returns (name, kind, default) of the parameters as written in a `def`."""
    function = ast.parse(f"def f({text}): ...").body[0]
    assert isinstance(function, ast.FunctionDef)
    arguments = function.args
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(positional) - len(arguments.defaults)) + list(arguments.defaults)
    parameters: list[tuple[str, str, ast.expr | None]] = [(p.arg, "", d) for p, d in zip(positional, defaults)]
    if arguments.vararg:
        parameters.append((arguments.vararg.arg, "*", None))
    parameters.extend((p.arg, "keyword", d) for p, d in zip(arguments.kwonlyargs, arguments.kw_defaults))
    if arguments.kwarg:
        parameters.append((arguments.kwarg.arg, "**", None))
    return parameters
