"""Finds where the code reads configuration options, from its syntax trees."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from syntax import nodes_of

from flinkpy.configuration import registry

#: A module: its path inside the package, its syntax tree, its text.
Module = tuple[str, ast.Module, str]

_PACKAGE = "flinkpy.configuration"
#: Modules that look at values without acting on them.
_CHECKS = ("configuration/validation.py", "configuration/key_notices.py")
#: Modules of PyFlink's API whose getters return options. A getter counts where something else calls it.
_GETTERS = ("common/execution_config.py", "datastream/checkpoint_config.py")
#: Calls that only write an option begin like this.
_WRITES = ("set_", "_set", "remove_", "setdefault")
_CALL = re.compile(r"\.(\w+)\(")
_QUOTED = re.compile(r'"([^"\n]+)"')


def reads_of_options(modules: Iterable[Module]) -> dict[str, list[str]]:
    """Returns for each documented option the places that read it, as `path:line`."""
    constants = _constants()
    reads: dict[str, list[str]] = {key: [] for key in constants.values()}
    keys = set(reads)
    others = [module for module in modules if not module[0].endswith("_options.py") and module[0] not in _CHECKS]
    called = {path: set(_CALL.findall(text)) for path, _, text in others}
    for path, tree, text in others:
        # Most modules have nothing to do with options.
        if "_options" not in text and keys.isdisjoint(_QUOTED.findall(text)):
            continue
        for key, line, function in _reads(tree, constants):
            is_getter = path in _GETTERS and function is not None
            if not is_getter or any(function in names for other, names in called.items() if other != path):
                reads[key].append(f"{path}:{line}")
    return reads


def unused_values(modules: Iterable[Module]) -> list[str]:
    """Returns the keyword arguments that get the value of an option and that nothing reads, as `path:line name`."""
    trees = [(path, tree) for path, tree, _ in modules]
    used: set[str] = set()
    passed: list[tuple[str, str]] = []
    for path, tree in trees:
        for node in nodes_of(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                used.add(node.attr)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                used.add(node.id)
            elif isinstance(node, ast.keyword) and node.arg is not None and _has_value_of_option(node.value):
                passed.append((node.arg, f"{path}:{node.lineno} {node.arg}"))
    return [place for name, place in passed if name not in used]


def _has_value_of_option(expression: ast.expr) -> bool:
    calls = (node for node in ast.walk(expression) if isinstance(node, ast.Call))
    return any(isinstance(call.func, ast.Name) and call.func.id == "read_option" for call in calls)


def _constants() -> dict[tuple[str, str], str]:
    """Returns the key of each option, by its module and name."""
    found = {}
    for module in registry.OPTION_MODULES:
        keys = {id(option): option.key for option in registry.options_of(module)}
        namespace = vars(__import__(f"{_PACKAGE}.{module}", fromlist=["_"]))
        found.update({(module, name): keys[id(value)] for name, value in namespace.items() if id(value) in keys})
    return found


def _reads(tree: ast.Module, constants: dict[tuple[str, str], str]) -> Iterator[tuple[str, int, str | None]]:
    """Yields key, line and function of each expression that refers to an option, unless the option is only written."""
    keys = set(constants.values())
    modules: dict[str, str] = {}
    names: dict[str, str] = {}
    for node in nodes_of(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith(_PACKAGE):
            for alias in node.names:
                modules[alias.asname or alias.name] = alias.name
                key = constants.get((node.module.rpartition(".")[2], alias.name))
                if key is not None:
                    names[alias.asname or alias.name] = key
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and node.value.value in keys:
            names.update({target.id: node.value.value for target in node.targets if isinstance(target, ast.Name)})

    def key_of(node: ast.AST) -> str | None:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            return names.get(node.id)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            return constants.get((modules.get(node.value.id, ""), node.attr))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in keys:
            return node.value
        return None

    def visit(node: ast.AST, function: str | None, is_written: bool) -> Iterator[tuple[str, int, str | None]]:
        key = key_of(node)
        if key is not None:
            if not is_written:
                yield key, getattr(node, "lineno", 0), function
            return
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            function = node.name
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            return
        for child in ast.iter_child_nodes(node):
            yield from visit(child, function, is_written or _writes(node, child))

    yield from visit(tree, None, False)


def _writes(node: ast.AST, child: ast.AST) -> bool:
    """True if the node uses an option that its child is only to write it, to name it in a text, or for its default."""
    if isinstance(node, ast.Attribute) and node.attr == "default":
        return True
    if isinstance(node, ast.JoinedStr):
        return True
    if not isinstance(child, ast.Name | ast.Constant | ast.Attribute):
        return False
    if isinstance(node, ast.Call):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        return name.startswith(_WRITES) and bool(node.args) and child is node.args[0]
    if isinstance(node, ast.Dict):
        return child in node.keys
    return isinstance(node, ast.Subscript) and child is node.slice and isinstance(node.ctx, ast.Store)
