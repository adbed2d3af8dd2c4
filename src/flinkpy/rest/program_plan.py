"""Explains an uploaded program in a process of its own, and turns what it says into Flink's plan of a job.

The program runs, but its jobs do not (`flinkpy explain`).
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from flinkpy.common.error_text import bounded_text
from flinkpy.common.process import environment_for_child
from flinkpy.configuration.loading import CONFIG_DIR_VARIABLES, DYNAMIC_PROPERTIES_VARIABLE
from flinkpy.rest.errors import RestError, bad_request
from flinkpy.rest.programs import Launch
from flinkpy.security.confidential_settings import settings_for_child

#: Far more than the plan of a program that a person wrote.
MAX_PLAN_BYTES = 32 << 20
_MAX_ERROR_CHARS = 4_000


async def explain(launch: Launch, arguments: tuple[str, ...], settings: Mapping[str, str], timeout_s: float) -> Any:
    """Returns the list of jobs that `flinkpy explain --json` shows.

    Raises: RestError with status 400 and the error of the program, or with 504 if it takes too long.
    """
    command = [sys.executable, "-m", "flinkpy.cli.main", "explain", "--json"]
    with settings_for_child(settings) as inherited:
        process = await asyncio.create_subprocess_exec(
            *command,
            *inherited.arguments,
            "--",
            launch.program,
            *arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={
                **environment_for_child(),
                **inherited.environment,
                **dict.fromkeys((*CONFIG_DIR_VARIABLES, DYNAMIC_PROPERTIES_VARIABLE), ""),
            },
            pass_fds=inherited.descriptors,
            start_new_session=True,
        )
    try:
        output, errors = await asyncio.wait_for(process.communicate(), timeout_s)
    except TimeoutError:
        raise RestError(
            HTTPStatus.GATEWAY_TIMEOUT, f"The program has not called execute() within {timeout_s:g} s."
        ) from None
    finally:
        if process.returncode is None:
            os.killpg(process.pid, 9)
            await process.wait()
    if process.returncode != 0 or len(output) > MAX_PLAN_BYTES:
        text = errors.decode(errors="replace").strip()
        raise bad_request(f"The program failed:\n{bounded_text(text[-_MAX_ERROR_CHARS:], _MAX_ERROR_CHARS)}")
    return json.loads(output)["jobs"]


def flink_plan(job_id: str, explained: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a job of `flinkpy explain` in the form of Flink's JSON plan: a node for each task."""
    operators = {one["id"]: one for one in explained["operators"]}
    task_of = {operator: number for number, task in enumerate(explained["tasks"]) for operator in task["operators"]}
    nodes = []
    for number, task in enumerate(explained["tasks"]):
        members = [operators[one] for one in task["operators"]]
        inputs = [
            {
                "num": 0,
                "id": node_id(task_of[edge["operator"]]),
                "ship_strategy": edge["exchange"],
                "exchange": "blocking" if edge["is_blocking"] else "pipelined_bounded",
            }
            for member in members
            for edge in member["inputs"]
            if task_of[edge["operator"]] != number
        ]
        for position, edge in enumerate(inputs):
            edge["num"] = position
        nodes.append(
            {
                "id": node_id(number),
                "parallelism": task["parallelism"],
                "operator": "",
                "operator_strategy": "",
                "description": " -> ".join(member["name"] for member in members),
                **({"inputs": inputs} if inputs else {}),
                "optimizer_properties": {},
            }
        )
    return {
        "jid": job_id,
        "name": explained["job_name"],
        "type": "BATCH" if explained["is_batch"] else "STREAMING",
        "nodes": nodes,
    }


def node_id(number: int) -> str:
    """Returns the id of a task of a plan. The job that is run later has ids of its own."""
    return f"{number + 1:032x}"
