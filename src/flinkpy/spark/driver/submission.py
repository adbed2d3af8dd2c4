"""Builds the command that runs a program with Spark's `spark-submit`. Pure, except for the files that it writes."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from flinkpy.common.errors import SparkUnavailableError, UserError
from flinkpy.configuration.spark_options import CONF_PREFIX, MASTER

#: The options of `spark-submit` that take a value, and those that do not.
VALUE_OPTIONS = (
    "--master",
    "--deploy-mode",
    "--name",
    "--jars",
    "--packages",
    "--exclude-packages",
    "--repositories",
    "--py-files",
    "--files",
    "--archives",
    "--properties-file",
    "--driver-memory",
    "--driver-java-options",
    "--driver-library-path",
    "--driver-class-path",
    "--executor-memory",
    "--proxy-user",
    "--driver-cores",
    "--total-executor-cores",
    "--executor-cores",
    "--num-executors",
    "--queue",
    "--principal",
    "--keytab",
)
FLAG_OPTIONS = ("--load-spark-defaults",)
#: The name of the script that `spark-submit` runs.
MAIN_FILE = "flinkpy_spark_main.py"
#: The name of the file that describes the program.
PROGRAM_FILE = "flinkpy-program.json"
_PYTHON_VARIABLES = ("PYSPARK_DRIVER_PYTHON", "PYSPARK_PYTHON")
_PYTHON_KEYS = ("spark.pyspark.driver.python", "spark.pyspark.python")
#: The options of the JVM, which it needs when it starts. The session of the program sets all others.
_OF_JVM = ("spark.driver.", "spark.jars", "spark.submit.", "spark.yarn.", "spark.kerberos.", "spark.kubernetes.")

#: Keys whose values are secrets, as Spark recognises them. The session of the program sets these too.
_SECRET = re.compile(r"secret|password|token|access\.?key", re.IGNORECASE)

#: The script must run with any Python, to tell that it is too old.
_MAIN = """\
import sys

if sys.version_info < (3, 11):
    sys.exit("flinkpy needs Python 3.11 or newer, but Spark's driver runs Python %d.%d at %s: set "
             "PYSPARK_DRIVER_PYTHON and PYSPARK_PYTHON" % (sys.version_info[0], sys.version_info[1], sys.executable))
missing = []
for name in {required!r}:
    try:
        __import__(name)
    except ImportError as error:
        missing.append("%s (%s)" % (name, error))
if missing:
    sys.exit("flinkpy: the Python of Spark's driver, %s, cannot import %s: install it there with pip"
             % (sys.executable, ", ".join(missing)))
from flinkpy.cli.spark_driver import main

main()
"""


@dataclass(frozen=True, slots=True)
class Program:
    """A program and its configuration, as the driver reads them.

    Attributes:
        path: the path of the file.
        configuration: the options of flinkpy by key.
    """

    path: str
    arguments: tuple[str, ...] = ()
    configuration: Mapping[str, str] = field(default_factory=dict)
    is_verbose: bool = False


@dataclass(frozen=True, slots=True)
class SparkOptions:
    """The options of `spark-submit`.

    Attributes:
        values: the value of each option by its name, for example `--master`.
        conf: the values of `--conf` by key.
        flags: the options without a value.
    """

    values: Mapping[str, str] = field(default_factory=dict)
    conf: Mapping[str, str] = field(default_factory=dict)
    flags: tuple[str, ...] = ()

    def get(self, option: str, key: str) -> str | None:
        """Returns the value of an option that is also a key of the configuration."""
        return self.values.get(option) or self.conf.get(key)


def is_cluster_mode(options: SparkOptions) -> bool:
    """True if the driver runs on a host of the cluster.

    Raises:
        UserError: the master runs no driver of a Python program, or there is no driver in the program's process.
    """
    master = options.get("--master", "spark.master") or ""
    if master.startswith("sc://"):
        raise UserError(
            f"{master} is a Spark Connect server, whose driver runs no programs: name a master with --master, or run "
            f"the program on a flinkpy cluster with {MASTER.key}"
        )
    mode = options.get("--deploy-mode", "spark.submit.deployMode") or "client"
    if mode == "cluster" and master.startswith("spark://"):
        raise UserError(
            "a standalone cluster of Spark runs no drivers of Python programs (--deploy-mode cluster): use "
            "--deploy-mode client, on a host that the executors can reach"
        )
    return mode == "cluster"


def spark_submit_path(environment: Mapping[str, str]) -> str:
    """Returns the path of `spark-submit`: that of SPARK_HOME, of PATH, or of the installed pyspark.

    Raises:
        UserError: SPARK_HOME has no `spark-submit`.
        SparkUnavailableError: there is none.
    """
    home = environment.get("SPARK_HOME")
    if home:
        path = os.path.join(home, "bin", "spark-submit")
        if not os.path.isfile(path):
            raise UserError(f"SPARK_HOME is {home}, but there is no {path}")
        return path
    found = shutil.which("spark-submit", path=environment.get("PATH"))
    if found is not None:
        return found
    try:
        import pyspark
    except ImportError:
        raise SparkUnavailableError(
            "there is no spark-submit: set SPARK_HOME to a Spark, add its bin directory to PATH, or pip install "
            "'flinkpy[spark]'"
        ) from None
    return os.path.join(os.path.dirname(pyspark.__file__), "bin", "spark-submit")


def write_files(directory: Path, program: Program, required: Sequence[str], is_in_cluster: bool) -> tuple[Path, Path]:
    """Writes the script for `spark-submit` and the file with the program's configuration. Returns their paths.

    Only the user can read the configuration, which may hold secrets.
    """
    main = directory / MAIN_FILE
    main.write_text(_MAIN.format(required=tuple(required)))
    described = directory / PROGRAM_FILE
    described.touch(mode=stat.S_IRUSR | stat.S_IWUSR)
    described.write_text(
        json.dumps(
            {
                # Spark copies the program into the directory of the driver.
                "program": os.path.basename(program.path) if is_in_cluster else os.path.abspath(program.path),
                "arguments": list(program.arguments),
                "configuration": dict(program.configuration),
                "verbose": program.is_verbose,
            }
        )
    )
    return main, described


def read_program(path: Path) -> Program:
    """Returns the program that `write_files` described."""
    described = json.loads(path.read_text())
    return Program(
        described["program"], tuple(described["arguments"]), described["configuration"], described["verbose"]
    )


def command(
    spark_submit: str,
    options: SparkOptions,
    program: Program,
    archive: Path,
    files: tuple[Path, Path],
    is_in_cluster: bool,
) -> list[str]:
    """Returns the command that runs the program."""
    main, described = files
    values = dict(options.values)
    configured = program.configuration.get(MASTER.key)
    if configured and options.get("--master", "spark.master") is None:
        values["--master"] = configured
    values.setdefault("--name", os.path.basename(program.path))
    values["--py-files"] = _joined(str(archive), values.get("--py-files"))
    if is_in_cluster:
        values["--files"] = _joined(str(described), program.path, values.get("--files"))
    own = {
        key.removeprefix(CONF_PREFIX): value
        for key, value in program.configuration.items()
        if key.startswith(CONF_PREFIX) and _goes_to_jvm(key.removeprefix(CONF_PREFIX))
    }
    made = [spark_submit]
    for option, value in values.items():
        made += [option, value]
    for key, value in {**own, **options.conf}.items():
        made += ["--conf", f"{key}={value}"]
    return [*made, *options.flags, str(main), described.name if is_in_cluster else str(described)]


def _goes_to_jvm(key: str) -> bool:
    """True if a key of the configuration stands on the command line, which all users of the host can read."""
    return key.startswith(_OF_JVM) and _SECRET.search(key) is None


def environment_of(options: SparkOptions, program: Program, environment: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables for `spark-submit`.

    If nothing names a Python, a driver on this host runs this one, and so do the workers of a local master.
    """
    made = dict(environment)
    if any(made.get(name) for name in _PYTHON_VARIABLES) or any(key in options.conf for key in _PYTHON_KEYS):
        return made
    if any(f"{CONF_PREFIX}{key}" in program.configuration for key in _PYTHON_KEYS):
        return made
    made["PYSPARK_DRIVER_PYTHON"] = sys.executable
    master = options.get("--master", "spark.master") or program.configuration.get(MASTER.key)
    if master is not None and master.startswith("local"):
        made["PYSPARK_PYTHON"] = sys.executable
    return made


def _joined(*paths: str | None) -> str:
    return ",".join(path for path in paths if path)
