"""The public API has every name, signature, default and enum value of PyFlink's `common`, `datastream` and `metrics`.

`pyflink_signatures.json` holds them as facts of PyFlink 2.3.0, written by `tools/gen_pyflink_api.py`. Where flinkpy is
not the same is in `pyflink_deviations.py`, with what happens instead.
"""

from __future__ import annotations

import importlib
import inspect
import json
from pathlib import Path

import pytest
from pyflink_deviations import DECLARED_OTHERWISE, DEVIATIONS, IN_PROGRESS, Deviation
from pyflink_signatures import difference_of, find, import_or_none, parse_parameters

MODULES = {
    name.removeprefix("pyflink."): facts
    for name, facts in json.loads(Path(__file__).with_name("pyflink_signatures.json").read_text())["modules"].items()
}

#: Names of contracts that have another name where they are defined.
ALIASES = {"Source", "Sink"}


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
