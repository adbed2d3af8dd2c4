"""Every option of every connector and format acts, or a table that sets it is warned of."""

from __future__ import annotations

import ast
import logging
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import flinkpy.table
from flinkpy.configuration.options import ConfigOption
from flinkpy.table.connectors import registry
from flinkpy.table.connectors.kafka_options import PROPERTIES
from flinkpy.table.connectors.table_options import TableOptions
from flinkpy.table.formats import table_format

ROOT = Path(flinkpy.table.__file__).parent
CLASSES = {
    **{f"connector {name}": f"connectors.{place}" for name, place in registry._BUILT_IN.items()},
    **{f"format {name}": f"formats.{place}" for name, place in table_format._BUILT_IN.items()},
}


def options_of(place: str) -> list[ConfigOption[Any]]:
    module, _, name = place.partition(":")
    try:
        kind = getattr(import_module(f"flinkpy.table.{module}"), name)
    except ImportError as error:
        pytest.skip(f"{error.name} is not installed")
    own = kind()
    return [*own.required_options, *own.optional_options]


@cache
def read_options() -> frozenset[int]:
    """Returns the ids of the options that functions of connectors and formats refer to, alone or as part of a group."""
    found: set[int] = set()
    for path in (*(ROOT / "connectors").glob("*.py"), *(ROOT / "formats").glob("*.py")):
        # The registry refers to the options that it checks.
        if path.stem == "registry":
            continue
        try:
            variables = vars(import_module(f"flinkpy.table.{path.parent.name}.{path.stem}"))
        except ImportError:
            continue  # the tables of this module cannot be made either
        for function in (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)):
            for name in (each.id for each in ast.walk(function) if isinstance(each, ast.Name)):
                found |= {id(option) for option in _options_in(variables.get(name))}
    return frozenset(found)


def _options_in(value: Any) -> list[ConfigOption[Any]]:
    values = [*value, *value.values()] if isinstance(value, dict) else value if isinstance(value, tuple) else [value]
    return [each for each in values if isinstance(each, ConfigOption)]


@pytest.mark.parametrize("which", sorted(CLASSES))
def test_option_acts_or_a_table_that_sets_it_is_warned_of(which: str, caplog: pytest.LogCaptureFixture) -> None:
    for option in options_of(CLASSES[which]):
        # The clients of Kafka get all options that begin with `properties.`.
        is_read = id(option) in read_options() or option.key.startswith(PROPERTIES)
        assert is_read == option.has_effect, f"{which}: {option.key}"
        if is_read:
            continue
        caplog.clear()
        text = str(option.choices[0] if option.choices else 1_000 if option.default is None else option.default)
        with caplog.at_level(logging.WARNING):
            TableOptions({option.key: text}, "table 'c.d.t'").check(which, (), (option,))
        assert f"Option '{option.key}' of table 'c.d.t' has no effect" in caplog.text
