"""Settings of all tests."""

from __future__ import annotations

import atexit
import compileall
import gc
import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from groups import GroupScheduling
from hypothesis import Phase, settings

# No deadline: the duration of one example depends more on the load of the machine than on the code.
# No phase `explain`: it traces every line, which takes minutes, and a signal of a time-out can hang Python 3.11
# meanwhile.
_PHASES = [phase for phase in Phase if phase is not Phase.explain]
settings.register_profile("flinkpy", deadline=None, derandomize=True, phases=_PHASES)
# Different examples in each run: they follow from `--hypothesis-seed`, which `make chaos` draws and prints.
settings.register_profile("chaos", deadline=None, derandomize=False, print_blob=True, phases=_PHASES)
settings.load_profile(os.environ.get("FLINKPY_HYPOTHESIS_PROFILE", "flinkpy"))

# Clusters that tests start have their own secret, so that tests never read or change the user's.
if "FLINKPY_SECRET_FILE" not in os.environ:
    _secret_directory = tempfile.mkdtemp(prefix="flinkpy-tests-")
    atexit.register(shutil.rmtree, _secret_directory, ignore_errors=True)
    os.environ["FLINKPY_SECRET_FILE"] = os.path.join(_secret_directory, "secret")

# A shell ignores SIGINT for tests that it starts in the background. Their children would inherit that, and no test of
# Ctrl-C could pass.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


#: The value of `sys.dont_write_bytecode` that tests run with.
_WRITES_NO_BYTECODE = pytest.StashKey[bool]()


def pytest_configure(config: pytest.Config) -> None:
    """Compiles the package once, as an installation does, because tests start thousands of processes.

    With PYTHONDONTWRITEBYTECODE, every process would otherwise compile all modules that it imports. pytest may also
    keep the test modules that it has rewritten: half of the time that each of its processes takes to collect them.
    """
    config.stash[_WRITES_NO_BYTECODE] = sys.dont_write_bytecode
    sys.dont_write_bytecode = False
    if not hasattr(config, "workerinput"):
        compileall.compile_dir(Path(__file__).parents[1] / "src" / "flinkpy", quiet=2)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Tells the garbage collector to ignore the tests and modules, which live until the end of the process."""
    sys.dont_write_bytecode = session.config.stash[_WRITES_NO_BYTECODE]
    gc.collect()
    gc.freeze()


def pytest_unconfigure(config: pytest.Config) -> None:
    """Lets the garbage collector free the modules at the end. DuckDB's bindings print what is not freed."""
    gc.unfreeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> GroupScheduling | None:
    return GroupScheduling(config, log) if config.getvalue("dist") == "loadscope" else None
