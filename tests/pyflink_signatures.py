"""Compares members of flinkpy with the names, signatures, defaults and enum values that PyFlink's have.

The facts are written by `tools/gen_pyflink_api.py`.
"""

from __future__ import annotations

import ast
import enum
import importlib
import importlib.util
import inspect
from typing import Any

_KINDS = {
    inspect.Parameter.VAR_POSITIONAL: "*",
    inspect.Parameter.VAR_KEYWORD: "**",
    inspect.Parameter.KEYWORD_ONLY: "keyword",
}


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
    if name.endswith("__init__") and any(is_of_java(parameter[0]) for parameter in theirs):
        if is_of_java(theirs[1][0]) and theirs[1][2] is None:
            return None  # programs do not call it: PyFlink makes such objects around Java ones
        theirs = [parameter for parameter in theirs if not is_of_java(parameter[0])]
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


def is_of_java(parameter: str) -> bool:
    """True for a parameter that takes an object of the JVM."""
    return parameter.lstrip("_").startswith(("j_", "java_"))


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
