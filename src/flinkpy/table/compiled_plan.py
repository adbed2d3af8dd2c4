"""CompiledPlan: the plan of INSERTs as JSON, from which jobs of later versions can continue with the state of this one.

Source: pyflink.table.compiled_plan, org.apache.flink.table.api.CompiledPlan.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from flinkpy.common.errors import TableProgramError, UnsupportedOperationError
from flinkpy.configuration.options import read_option
from flinkpy.configuration.table_options import PLAN_FORCE_RECOMPILE
from flinkpy.table.explain_detail import ExplainDetail
from flinkpy.table.table_result import TableResult

if TYPE_CHECKING:
    from flinkpy.table.table_environment import TableEnvironment

__all__ = ["CompiledPlan"]


class CompiledPlan:
    """A plan that can be written to a file and executed. Made by `TableEnvironment.compile_plan_sql` and `load_plan`.

    Args:
        text: the JSON.
        environment: executes it.
    """

    def __init__(self, text: str, environment: TableEnvironment) -> None:
        self._text = text
        self._environment = environment
        self._plan = environment.planner.load_plan(text)

    def as_json_string(self) -> str:
        """Returns the plan as JSON."""
        return self._text

    def as_smile_bytes(self) -> bytes:
        """Raises: UnsupportedOperationError, because flinkpy writes plans as JSON only."""
        raise UnsupportedOperationError(
            "flinkpy does not write plans in Smile, a binary form of JSON. Use as_json_string."
        )

    def write_to_file(self, file: str | Path, ignore_if_exists: bool = False) -> None:
        """Writes the JSON to a file.

        Args:
            file: its path. It may only exist if `table.plan.force-recompile` is set.
            ignore_if_exists: True to keep a file that exists, and write nothing.

        Raises: TableProgramError if the file exists or cannot be written.
        """
        path = Path(file)
        if path.exists() and ignore_if_exists:
            return
        may_overwrite = read_option(self._environment.get_config().get_configuration(), PLAN_FORCE_RECOMPILE)
        try:
            with path.open("w" if may_overwrite else "x", encoding="utf-8") as written:
                written.write(self._text)
        except FileExistsError:
            raise TableProgramError(
                f"Cannot overwrite the plan file '{path}'. Either manually remove the file or, if you're debugging "
                f"your job, set the option '{PLAN_FORCE_RECOMPILE.key}' to true.",
                details={"path": str(path)},
            ) from None
        except OSError as error:
            raise TableProgramError(f"Cannot write the compiled plan to file '{path}': {error}") from error

    def get_flink_version(self) -> str:
        """Returns the version of flinkpy that compiled the plan."""
        return str(json.loads(self._text)["flinkpyVersion"])

    def print_json_string(self) -> None:
        """Prints the JSON to standard output."""
        sys.stdout.write(self._text + "\n")

    def execute(self) -> TableResult:
        """Runs the plan as a job. Its operators have the uids of the plan."""
        return self._environment.execute_plan_graph(self._plan)

    def explain(self, *extra_details: ExplainDetail) -> str:
        """Returns the operators of the plan. Details that need the query, such as costs, are not in a plan."""
        return self._environment.planner.explain_plan(self._plan)

    def print_explain(self, *extra_details: ExplainDetail) -> None:
        """Prints the operators of the plan to standard output."""
        sys.stdout.write(self.explain(*extra_details) + "\n")
