"""Packages of flinkpy import each other in one direction only, also inside of functions.

Imports for type checking do not count. `common` and `configuration` are one floor: `common` holds PyFlink's
ExecutionConfig, which reads options.
"""

from __future__ import annotations

from collections.abc import Iterable
from graphlib import CycleError, TopologicalSorter

import grimp

ONE_FLOOR = {"configuration": "common"}


def circle_in(imports: Iterable[tuple[str, str]]) -> list[str] | None:
    """Returns the packages of a circle, the first one again at its end; None if there is none."""
    sorter: TopologicalSorter[str] = TopologicalSorter()
    for importer, imported in imports:
        if importer != imported:
            sorter.add(importer, imported)
    try:
        sorter.prepare()
    except CycleError as error:
        return list(error.args[1])
    return None


def test_there_is_no_circle_between_packages() -> None:
    graph = grimp.build_graph("flinkpy", exclude_type_checking_imports=True, cache_dir=None)
    imports = {
        (_package(importer), _package(imported))
        for importer in graph.modules
        for imported in graph.find_modules_directly_imported_by(importer)
        if importer != "flinkpy" and imported != "flinkpy"
    }

    assert circle_in(imports) is None
    assert {("datastream", "functions"), ("streaming", "functions")} <= imports


def test_a_circle_of_three_packages_is_found() -> None:
    circle = circle_in([("a", "b"), ("b", "c"), ("c", "a"), ("c", "d"), ("a", "a")])

    assert circle is not None
    assert set(circle) == {"a", "b", "c"}


def _package(module: str) -> str:
    name = module.split(".")[1]
    return ONE_FLOOR.get(name, name)
