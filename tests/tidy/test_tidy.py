"""Rules for the code itself, which reviewers would otherwise have to check."""

from __future__ import annotations

import ast
import gc
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from option_reads import reads_of_options, unused_values
from syntax import nodes_of

from flinkpy.configuration.registry import implemented_options

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "flinkpy"

#: A longer module needs a reason in LONG_MODULES.
MAX_LINES = 1000
#: Files of which every folder may have its own.
SHARED_NAMES = {"__init__.py", "conftest.py"}
#: Modules that are longer, each with the reason why it should stay whole.
LONG_MODULES: dict[str, str] = {}

#: Only these read the machine's clocks; everybody else is passed a Clock or a deadline.
CLOCK_MODULES = {
    "common/clock.py": "it is the clock",
    "common/process.py": "waiting for processes of the operating system",
    "client/service_process.py": "waiting for processes of the operating system",
}
#: Only these write to standard output.
PRINTING_MODULES = {
    "common/process.py": "the line that says a service is ready is its interface",
    "connectors/print_sink.py": "it is the sink that prints",
}


@cache
def modules() -> list[tuple[str, ast.Module, str]]:
    """Returns path inside the package, syntax tree and text of every module that is not generated."""
    found = []
    gc.disable()  # it would look at millions of nodes again and again
    try:
        for path in sorted(SOURCE.rglob("*.py")):
            name = path.relative_to(SOURCE).as_posix()
            if not name.startswith("_proto/"):
                text = path.read_text(encoding="utf-8")
                found.append((name, ast.parse(text, filename=str(path)), text))
        gc.freeze()
    finally:
        gc.enable()
    return found


@cache
def calls_of(tree: ast.Module) -> list[tuple[str, int]]:
    """Returns every call in the module by its dotted name, with its line. Calls without a name are omitted."""
    calls = ((node, dotted_name(node.func)) for node in nodes_of(tree) if isinstance(node, ast.Call))
    return [(name, node.lineno) for node, name in calls if name is not None]


def dotted_name(node: ast.expr) -> str | None:
    """`a.b.c`; None for an expression that has anything else in it."""
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else None


def test_generated_protobuf_code_is_fresh(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "tools" / "gen_proto.py"), str(tmp_path)]
    subprocess.run(command, capture_output=True, check=True)
    committed = {path.name: path.read_text() for path in (SOURCE / "_proto").glob("*.py*")}
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == committed


def test_the_configuration_reference_is_fresh() -> None:
    result = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "gen_config_docs.py"), "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr


def test_every_documented_option_is_read_by_the_code_that_acts_on_it() -> None:
    """An option that nothing acts on belongs to the keys without effect, and not to the reference."""
    options = {option.key: option for option in implemented_options().values()}
    unread = {key for key, places in reads_of_options(modules()).items() if not places}
    assert sorted(unread) == sorted(key for key, option in options.items() if not option.has_effect)


def test_every_option_value_is_used_where_it_was_passed() -> None:
    assert unused_values(modules()) == []


def test_only_the_clock_reads_the_clock() -> None:
    offenders = [
        f"{name}:{line} {call}"
        for name, tree, _ in modules()
        if name not in CLOCK_MODULES
        for call, line in calls_of(tree)
        if call in {"time.time", "time.time_ns", "datetime.datetime.now", "datetime.now", "datetime.utcnow"}
    ]
    assert offenders == []


def test_nothing_sleeps() -> None:
    """A sleep is a guess; wait for the condition, with a time-out."""
    offenders = [
        f"{name}:{line}" for name, tree, _ in modules() for call, line in calls_of(tree) if call == "time.sleep"
    ]
    assert offenders == []


def test_only_the_command_line_and_the_print_sink_print() -> None:
    offenders = [
        f"{name}:{line}"
        for name, tree, _ in modules()
        if name not in PRINTING_MODULES and not name.startswith("cli/")
        for call, line in calls_of(tree)
        if call == "print"
    ]
    assert offenders == []


def test_no_exception_is_swallowed_silently() -> None:
    offenders = []
    for name, tree, _ in modules():
        for node in nodes_of(tree):
            if isinstance(node, ast.ExceptHandler) and all(isinstance(part, ast.Pass) for part in node.body):
                offenders.append(f"{name}:{node.lineno}")
    assert offenders == []


def test_modules_above_the_size_limit_are_listed_with_a_reason() -> None:
    lengths = {name: text.count("\n") for name, _, text in modules()}
    unexplained = {name: length for name, length in lengths.items() if length > MAX_LINES and name not in LONG_MODULES}
    assert unexplained == {}
    assert [name for name in LONG_MODULES if lengths.get(name, 0) <= MAX_LINES] == [], (
        "not long any more: remove it from the list"
    )


def test_no_two_test_modules_have_one_name() -> None:
    """pytest imports them by their names, and would refuse the second in a run of several folders."""
    names = [path.name for path in Path(__file__).parents[1].rglob("*.py") if path.name not in SHARED_NAMES]
    assert sorted(name for name in set(names) if names.count(name) > 1) == []


def test_every_module_with_long_tests_has_short_ones() -> None:
    """`make test` skips tests marked for `make chaos` and `make differential`, but must check every promise."""
    without = []
    for path in (ROOT / "tests" / "integration").glob("test_*.py"):
        functions = [node for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef)]
        tests = [node for node in functions if node.name.startswith("test_")]
        marks = [{ast.unparse(decorator) for decorator in node.decorator_list} for node in tests]
        if tests and all(each & {"pytest.mark.chaos", "pytest.mark.differential"} for each in marks):
            without.append(path.name)
    assert without == []


def test_every_module_has_a_docstring() -> None:
    assert [name for name, tree, text in modules() if text.strip() and not ast.get_docstring(tree)] == []


def test_every_todo_names_an_issue() -> None:
    pattern = re.compile(r"\b(TODO|FIXME|XXX)\b(?!\(#\d+\))")
    assert [f"{name}: {match.group()}" for name, _, text in modules() for match in pattern.finditer(text)] == []


@pytest.mark.parametrize(
    "statement",
    [
        "import flinkpy",
        "import flinkpy.cli.main",
        "import flinkpy.common, flinkpy.common.errors, flinkpy.common.configuration",
    ],
)
def test_light_modules_stay_light(statement: str) -> None:
    code = f"{statement}\nimport sys\nprint([m for m in ('grpc', 'pyarrow', 'numpy', 'asyncio') if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_the_job_master_loads_no_arrow() -> None:
    """Its start is on the way of every job, and it moves no data."""
    code = "import flinkpy.jobmaster.entrypoint, sys\nprint('pyarrow' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "False"
