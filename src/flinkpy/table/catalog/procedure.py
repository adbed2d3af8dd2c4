"""Procedure: code of a catalog that CALL runs, such as the compaction of a table.

Source: org.apache.flink.table.procedures.{Procedure, ProcedureDefinition, ProcedureContext}.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flinkpy.datastream.stream_execution_environment import StreamExecutionEnvironment


@dataclass(frozen=True)
class ProcedureContext:
    """The parts of a session that a procedure may use.

    Attributes:
        execution_environment: runs jobs with the options of the session.
    """

    execution_environment: StreamExecutionEnvironment


class Procedure(ABC):
    """The base class of procedures.

    Attributes:
        result_type: the type of a row of the result, a DataType or its SQL text. A ROW has a column per field, any
            other type the column `result`.
    """

    result_type: Any = "STRING"

    @abstractmethod
    def call(self, context: ProcedureContext, *arguments: Any, **named_arguments: Any) -> Iterable[Any]:
        """Runs the procedure and returns the rows of its result.

        Args:
            context: what the procedure may use.
            arguments: the values of CALL as Python objects, in the order of the text.
            named_arguments: the values that are written as `name => value`.
        """
