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
from flinkpy.spark.driver.submission import read_program


def main() -> NoReturn:
    """Runs the program that the file in the first argument describes, and exits with its status."""
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s", level=logging.WARNING)
    logging.getLogger("flinkpy.spark").setLevel(logging.INFO)
    logging.getLogger("py4j").setLevel(logging.WARNING)
    program = read_program(Path(sys.argv[1]))
    configuration = Configuration.from_dict(dict(program.configuration))
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
