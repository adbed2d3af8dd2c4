"""`flinkpy explain`: shows how the jobs of a program would run, without running them."""

from __future__ import annotations

import contextlib
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from flinkpy.cli.json_output import json_option, print_json
from flinkpy.cli.options import configuration_options, load_valid_configuration
from flinkpy.cli.program import (
    ProgramCommand,
    ProgramType,
    program_environment,
    program_options,
    program_overrides,
    run_program,
)
from flinkpy.common.error_text import escaped

if TYPE_CHECKING:
    from flinkpy.datastream.explained_programs import ExplainedJob

#: The modes of Spark's `DataFrame.explain`.
_MODES = ("formatted", "simple", "extended", "cost", "codegen")


@click.command(cls=ProgramCommand)
@configuration_options
@json_option
@click.option("--spark-plan", is_flag=True, help="Add Spark's own plan. Starts Spark on this host for a moment.")
@click.option("--spark-plan-mode", type=click.Choice(_MODES), help="The form of Spark's plan. Default: formatted.")
@click.option("-t", "--target", metavar="TARGET", help="The target of `flinkpy run`, or `spark` for `spark-submit`.")
@program_options
@click.argument("program", type=ProgramType())
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def explain(
    as_json: bool,
    spark_plan: bool,
    spark_plan_mode: str | None,
    target: str | None,
    program: str,
    arguments: tuple[str, ...],
    config_dir: str | None,
    properties: tuple[str, ...],
    verbose: bool,
    **settings: Any,
) -> int:
    """Show how the jobs of PROGRAM would run: where each operator runs and why, its parallelism and its inputs.

    The program is executed, but its jobs are not, so it gets no results. What it prints goes to standard error.
    """
    overrides = {**program_overrides(settings), "execution.target": target}
    configuration = load_valid_configuration(config_dir, properties, overrides)
    from flinkpy.datastream.explained_programs import explaining

    with explaining() as jobs:
        try:
            with contextlib.redirect_stdout(sys.stderr), program_environment(configuration, program, arguments):
                status = run_program(program, verbose)
        finally:
            plans = [_spark_plans(job, spark_plan_mode) if spark_plan or spark_plan_mode else [] for job in jobs]
            _show(jobs, plans, as_json)
    if status:
        shown = f"after {len(jobs)} of its jobs" if jobs else "before its first job"
        click.echo(f"flinkpy: the program failed {shown}. `explain` runs no jobs, so it had no results.", err=True)
    elif not jobs:
        click.echo("flinkpy: the program runs no job: it did not call execute().", err=True)
    return status


def _spark_plans(job: ExplainedJob, mode: str | None) -> list[dict[str, Any]]:
    """Returns Spark's plans of a job. Starts Spark if the job has operators in it."""
    if not job.regions:
        return []
    from flinkpy.spark.explained_regions import explained_regions

    return [asdict(plan) for plan in explained_regions(job.regions, job.configuration, mode or _MODES[0])]


def _show(jobs: list[ExplainedJob], plans: list[list[dict[str, Any]]], as_json: bool) -> None:
    from flinkpy.graph.job_plan import plan_lines

    if as_json:
        described = [
            {**asdict(job.plan), "spark_plans": spark_plans} for job, spark_plans in zip(jobs, plans, strict=True)
        ]
        print_json({"jobs": described})
        return
    for number, (job, spark_plans) in enumerate(zip(jobs, plans, strict=True)):
        if number:
            click.echo()
        for line in plan_lines(job.plan):
            click.echo(escaped(line))
        for plan in spark_plans:
            click.echo(f"\nSpark's plan of {escaped(plan['name'])}:\n{escaped(plan['text'].rstrip())}")
