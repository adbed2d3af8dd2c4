"""Write down PyFlink's public API, for the tests of its signatures. Run by hand for a new PyFlink.

    python tools/gen_pyflink_api.py .bench/pyflink/lib/python3.11/site-packages/pyflink

The argument is the folder of an installed `pyflink` package. Its sources are parsed, not imported: no JVM is needed.
Only names, parameters, defaults and enum values are taken.
"""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent / "tests" / "unit"
#: The packages of each file of facts.
OUTPUTS = {
    TESTS / "datastream" / "pyflink_signatures.json": ("common", "datastream", "metrics"),
    TESTS / "table" / "pyflink_table_signatures.json": ("table",),
}

#: How a method is decorated, as the test reads it. Other decorators do not change how a member is used.
_KINDS = {"staticmethod": "static", "classmethod": "class", "property": "property"}


def main() -> None:
    if len(sys.argv) != 2 or not (Path(sys.argv[1]) / "datastream").is_dir():
        sys.exit(__doc__)
    root = Path(sys.argv[1])
    for output, packages in OUTPUTS.items():
        facts = {"version": _version(root), "modules": facts_of_packages(root, packages)}
        output.write_text(json.dumps(facts, indent=1) + "\n")


def facts_of_packages(root: Path, packages: tuple[str, ...]) -> dict[str, object]:
    modules: dict[str, object] = {}
    for package in packages:
        for path in sorted((root / package).rglob("*.py")):
            if "tests" in path.parts:
                continue
            parts = path.relative_to(root).with_suffix("").parts
            name = ".".join(("pyflink", *(parts[:-1] if parts[-1] == "__init__" else parts)))
            module = facts_of_module(ast.parse(path.read_text()))
            if module["exports"] or module["members"]:
                modules[name] = module
    return modules


def facts_of_module(tree: ast.Module) -> dict[str, object]:
    exports: list[str] = []
    members: dict[str, str] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            if node.targets[0].id == "__all__":
                exports = sorted(set(ast.literal_eval(node.value)))
            elif node.targets[0].id.isupper() and len(node.targets[0].id) > 4:
                # Shorter ones are type variables.
                members[node.targets[0].id] = _value(node.value)
        else:
            members.update(facts_of_member(node, ""))
    return {"exports": exports, "members": members}


def facts_of_member(node: ast.stmt, owner: str) -> Iterator[tuple[str, str]]:
    if isinstance(node, ast.ClassDef):
        if not node.name.startswith("_"):
            yield owner + node.name, "class"
            for child in node.body:
                yield from facts_of_member(child, f"{owner}{node.name}.")
    elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        decorators = [d.id for d in node.decorator_list if isinstance(d, ast.Name)]
        is_special = node.name.startswith("__") and node.name.endswith("__")
        if "overload" in decorators or (node.name.startswith("_") and not is_special):
            return
        kind = next((_KINDS[d] for d in decorators if d in _KINDS), "def")
        if isinstance(node, ast.AsyncFunctionDef):
            kind = f"async {kind}"
        yield owner + node.name, kind if kind == "property" else f"{kind} ({_parameters(node.args)})"
    elif isinstance(node, ast.Assign) and owner:
        for target in node.targets:
            if isinstance(target, ast.Name) and not target.id.startswith("_"):
                yield owner + target.id, _value(node.value)


def _parameters(arguments: ast.arguments) -> str:
    for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg):
        if argument is not None:
            argument.annotation = None
    return ast.unparse(arguments)


def _value(node: ast.expr) -> str:
    """`= value` of a literal; a value that is computed is `=` alone: then the member only has to be there."""
    try:
        return f"= {ast.literal_eval(node)!r}"
    except ValueError:
        return "="


def _version(root: Path) -> str:
    tree = ast.parse((root / "version.py").read_text())
    return next(ast.literal_eval(node.value) for node in tree.body if isinstance(node, ast.Assign))


if __name__ == "__main__":
    main()
