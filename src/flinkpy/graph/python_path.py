"""Finds the directories of the user's own modules."""

from __future__ import annotations

import os
import site
import sys
import sysconfig

import flinkpy


def user_python_path() -> list[str]:
    """Returns the entries of `sys.path` that belong neither to the interpreter nor to flinkpy, as absolute paths.

    The JobGraph contains the functions of the program's main script. Functions of other modules are imported by name.
    Tasks on the same host import them from these directories.
    """
    own = _installed_directories()
    found: list[str] = []
    for entry in sys.path:
        directory = os.path.realpath(entry or os.getcwd())
        if directory in found or any(_is_within(directory, prefix) for prefix in own):
            continue
        if os.path.isdir(directory) or os.path.isfile(directory):
            found.append(directory)
    return found


def _installed_directories() -> set[str]:
    directories = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    directories.update(site.getsitepackages())
    directories.add(site.getusersitepackages())
    directories.add(os.path.join(sys.base_prefix, "lib", f"python{sys.version_info[0]}{sys.version_info[1]}.zip"))
    directories.add(os.path.dirname(os.path.dirname(os.path.abspath(flinkpy.__file__))))
    directories.add(os.path.join(sys.prefix, "bin"))
    return {os.path.realpath(directory) for directory in directories if directory}


def _is_within(path: str, directory: str) -> bool:
    return path == directory or path.startswith(directory + os.sep)
