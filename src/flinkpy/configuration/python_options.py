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
    "A requirements.txt whose packages functions can import; after `#` a directory of packages, and then nothing is "
    "taken from anywhere else.",
)
PYTHON_ARCHIVES = string_option(
    "python.archives",
    None,
    "Archives that are unpacked in the working directory of functions, separated by commas; each as the directory "
    "named after `#`, or as its own name.",
)
PYTHON_EXECUTABLE = string_option(
    "python.executable",
    "python",
    "Accepted where it is the interpreter of the program: functions run inside the TaskExecutors.",
)
ENVIRONMENT_DIR = string_option(
    "python.environment.dir",
    None,
    "Where each host keeps the packages that jobs require, made once and used again; by default in its temporary "
    "directory, one per user.",
)
