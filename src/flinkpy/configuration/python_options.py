"""What a program brings along for its Python functions. Source: org.apache.flink.python.PythonOptions."""

from __future__ import annotations

from flinkpy.configuration.options import string_option

PYTHON_FILES = string_option(
    "python.files",
    None,
    "Modules, packages and zip files that functions can import, separated by commas.",
)
PYTHON_REQUIREMENTS = string_option(
    "python.requirements",
    None,
    "Path of a requirements.txt; functions can import its packages. A directory of packages may follow after `#`. "
    "If it does, packages are installed only from there.",
)
PYTHON_ARCHIVES = string_option(
    "python.archives",
    None,
    "Archives to unpack into the working directory of functions, separated by commas. Each is unpacked into the "
    "directory named after `#`, or into one named like the archive.",
)
PYTHON_EXECUTABLE = string_option(
    "python.executable",
    "python",
    "Must be the program's own interpreter, because functions run inside the TaskExecutors.",
)
ENVIRONMENT_DIR = string_option(
    "python.environment.dir",
    None,
    "Directory on each host for the packages that jobs require. They are installed once and then reused. Default: "
    "one directory per user in the host's temporary directory.",
)
