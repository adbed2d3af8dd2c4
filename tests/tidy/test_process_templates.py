"""The modules that the template processes of the integration tests import."""

from __future__ import annotations

import importlib.util
import runpy
from pathlib import Path

FORKED_PROCESSES = Path(__file__).parents[1] / "integration" / "forked_processes.py"


def test_the_modules_of_the_template_processes_exist() -> None:
    names = runpy.run_path(str(FORKED_PROCESSES))
    modules = {*names["CONTROL_MODULES"], *names["TASK_EXECUTOR_MODULES"]}
    assert [module for module in sorted(modules) if importlib.util.find_spec(module) is None] == []
