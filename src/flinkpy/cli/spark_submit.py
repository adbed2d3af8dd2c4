"""`flinkpy spark-submit`: runs a batch program where only Spark is installed."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from flinkpy.cli.options import configuration_options, load_valid_configuration
from flinkpy.cli.program import MODULE_PREFIX, ProgramCommand, ProgramType
from flinkpy.common.errors import UserError
from flinkpy.spark.driver.submission import (
    FLAG_OPTIONS,
    VALUE_OPTIONS,
    Program,
    SparkOptions,
    command,
    environment_of,
    is_cluster_mode,
    spark_submit_path,
    write_files,
)

F = TypeVar("F", bound=Callable[..., Any])


def _spark_options(decorated: F) -> F:
    """Adds the options of `spark-submit`."""
    for name in reversed(VALUE_OPTIONS):
        decorated = click.option(name, metavar="VALUE", help="An option of spark-submit.", hidden=name not in _SHOWN)(
            decorated
        )
    for name in FLAG_OPTIONS:
        decorated = click.option(name, is_flag=True, hidden=True)(decorated)
    return decorated


#: The options that the help shows. `spark-submit --help` describes all of them.
_SHOWN = ("--master", "--deploy-mode", "--py-files", "--files", "--num-executors", "--executor-memory")


@click.command(name="spark-submit", cls=ProgramCommand)
@configuration_options
@click.option("-p", "--parallelism", type=click.IntRange(1, 32768), help="Parallelism of operators without one.")
@click.option("-c", "--conf", multiple=True, metavar="KEY=VALUE", help="Set an option of Spark. May be repeated.")
@_spark_options
@click.argument("program", type=ProgramType())
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def spark_submit(
    program: str,
    arguments: tuple[str, ...],
    parallelism: int | None,
    conf: tuple[str, ...],
    config_dir: str | None,
    properties: tuple[str, ...],
    verbose: bool,
    **options: Any,
) -> int:
    """Run PROGRAM with ARGUMENTS in Spark alone, without a flinkpy cluster.

    Takes the options of Spark's spark-submit, which it calls with flinkpy and the program. All jobs of the program run
    in batch mode. Exits with the status of the program.
    """
    if program.startswith(MODULE_PREFIX):
        raise UserError("spark-submit runs files, not modules: name the file of the program")
    overrides = {
        "execution.target": "spark",
        "parallelism.default": None if parallelism is None else str(parallelism),
    }
    configuration = load_valid_configuration(config_dir, properties, overrides).to_dict()
    given = SparkOptions(
        values={name: value for name in VALUE_OPTIONS if (value := options[_parameter(name)]) is not None},
        conf=dict(map(_key_and_value, conf)),
        flags=tuple(name for name in FLAG_OPTIONS if options[_parameter(name)]),
    )
    described = Program(program, arguments, configuration, verbose)
    is_in_cluster = is_cluster_mode(given)
    path = spark_submit_path(os.environ)
    from flinkpy.spark.driver.archive import REQUIRED, make_archive

    with tempfile.TemporaryDirectory(prefix="flinkpy-submit-") as directory:
        files = write_files(Path(directory), described, REQUIRED, is_in_cluster)
        archive = make_archive(Path(directory))
        made = command(path, given, described, archive, files, is_in_cluster)
        if verbose:
            click.echo(" ".join(made), err=True)
        return _run(made, environment_of(given, described, os.environ))


def _run(made: list[str], environment: dict[str, str]) -> int:
    """Runs the command and returns its exit status. Ctrl-C reaches Spark, which ends the program."""
    process = subprocess.Popen(made, env=environment)
    previous = signal.signal(signal.SIGTERM, lambda number, frame: process.send_signal(number))
    try:
        while True:
            try:
                status = process.wait()
            except KeyboardInterrupt:
                continue
            return status if status >= 0 else 128 - status
    finally:
        signal.signal(signal.SIGTERM, previous)


def _parameter(option: str) -> str:
    return option.removeprefix("--").replace("-", "_")


def _key_and_value(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not separator:
        raise click.UsageError(f"--conf {text}: expected KEY=VALUE")
    return key, value
