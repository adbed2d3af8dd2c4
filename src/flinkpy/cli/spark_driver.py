"""The program that `flinkpy spark-submit` makes Spark's driver run. It runs the user's program in turn."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import NoReturn

import click

from flinkpy.cli.main import EXIT_FAILURE, EXIT_INTERRUPTED, describe_error
from flinkpy.cli.program import program_environment, run_program
from flinkpy.common.configuration import Configuration
from flinkpy.common.error_text import escaped
from flinkpy.common.errors import FlinkError
from flinkpy.configuration import read_option
from flinkpy.configuration.core_options import LOG_LEVEL
from flinkpy.spark.driver.submission import read_program


def main() -> NoReturn:
    """Runs the program that the file in the first argument describes, and exits with its status."""
    program = read_program(Path(sys.argv[1]))
    configuration = Configuration.from_dict(dict(program.configuration))
    # Spark writes the standard error of the program to its standard output, so the log must be short by default.
    is_set = configuration.contains_key(LOG_LEVEL.key)
    level = read_option(configuration, LOG_LEVEL) if is_set else "INFO" if program.is_verbose else "WARNING"
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s", level=level)
    logging.getLogger("py4j").setLevel(logging.WARNING)
    try:
        with program_environment(configuration, program.path, program.arguments):
            status = run_program(program.path, program.is_verbose)
        if status == 0:
            _forget_jobs()
    except FlinkError as error:
        if program.is_verbose:
            raise
        click.echo(escaped(describe_error(error)), err=True)
        status = EXIT_FAILURE
    except KeyboardInterrupt:
        status = EXIT_INTERRUPTED
    finally:
        _end_spark()
    sys.exit(status)


def _forget_jobs() -> None:
    from flinkpy.spark.driver.executor import forget_jobs

    forget_jobs()


def _end_spark() -> None:
    from flinkpy.spark.driver.attached_spark import SESSIONS

    SESSIONS.close()
