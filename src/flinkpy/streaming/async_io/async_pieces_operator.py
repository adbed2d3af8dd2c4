"""AsyncPiecesOperator: the base class of operators of tables that process pieces of batches side by side.

A batch is cut into pieces. Each piece is a record of the AsyncWaitOperator. It leaves the operator when all of its
calls have ended, in the order of the pieces if the operator is ordered. A checkpoint contains the pieces that have not
ended; their calls are made again after a restore.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np

from flinkpy.functions.async_functions import NO_RETRY_STRATEGY
from flinkpy.graph.operator_specs import AsyncWaitSpec
from flinkpy.records.batch import Batch
from flinkpy.streaming.async_io.async_wait_operator import AsyncWaitOperator
from flinkpy.streaming.async_io.element_queue import Chunk, Part
from flinkpy.streaming.operators.output import Output
from flinkpy.streaming.operators.stream_operator import OperatorContext
from flinkpy.streaming.operators.table.bundle import concatenated

#: The rows of a piece. A piece waits for its slowest call, and costs some 100 us besides its calls.
_PIECE_ROWS = 256
#: The numbers of rows and of pieces that may be in the operator before the task stops reading. If batches are short,
#: there are as many pieces as calls may run side by side, because each of them may be one call.
_MAX_ROWS = 64 * _PIECE_ROWS
_MIN_PIECES = 64


class AsyncPiecesOperator(AsyncWaitOperator):
    """Thread: task thread. `calls` run on the loop thread.

    Args:
        calls: an AsyncFunction of pieces. It returns one element per piece. Its errors name the call that failed.
        capacity: the largest number of calls side by side.
    """

    def __init__(
        self,
        calls: Any,
        capacity: int,
        is_ordered: bool,
        input_type: Any,
        context: OperatorContext,
        output: Output,
        side_outputs: dict[str, Output],
    ) -> None:
        self._max_pieces = max(_MIN_PIECES, capacity)
        self._max_rows = max(_MAX_ROWS, capacity)
        #: The number of rows whose results have not been emitted.
        self._unfinished_rows = 0
        # Each call has a timeout of its own, so a piece has none.
        waiting = AsyncWaitSpec(calls, 0, self._max_pieces, NO_RETRY_STRATEGY, is_ordered)
        super().__init__(waiting, input_type, context, output, side_outputs)

    @abstractmethod
    def piece_of(self, batch: Batch) -> Any:
        """Returns the piece of some rows, with what the calls need."""

    @abstractmethod
    def batch_of(self, piece: Any) -> Batch:
        """Returns the rows of a piece, which a checkpoint contains."""

    @abstractmethod
    def joined(self, piece: Any, result: Any) -> list[Batch]:
        """Returns the output for a piece."""

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        self._put(Chunk([batch.slice(start, _PIECE_ROWS) for start in range(0, batch.num_rows, _PIECE_ROWS)]))

    def _put(self, chunk: Chunk) -> None:
        self._unfinished_rows += sum(batch.num_rows for batch in chunk.rows)
        chunk.rows = [self.piece_of(batch) for batch in chunk.rows]
        super()._put(chunk)

    @property
    def is_writable(self) -> bool:
        return self._unfinished < self._max_pieces and self._unfinished_rows < self._max_rows

    @property
    def max_batch_rows(self) -> int:
        return self._max_rows

    def _emit(self, parts: list[Part]) -> None:
        made: list[Batch] = []
        for part in parts:
            pieces = [
                part.chunk.rows[position]
                for begin, end in (*part.runs, (part.begin, part.end))
                for position in range(begin, end)
            ]
            for piece, result in zip(pieces, part.results, strict=True):
                made += self.joined(piece, result)
                self._unfinished_rows -= self.batch_of(piece).num_rows
            self._unfinished -= part.finish()
        if made:
            self.output.emit(concatenated(made))

    def note_about(self, value: Any) -> None:
        return None

    def _unfinished_records(self) -> list[tuple[list[Any], list[int] | None]]:
        return [([_copied(self.batch_of(piece)) for piece in rows], None) for rows, _ in super()._unfinished_records()]


def _copied(batch: Batch) -> Batch:
    """Returns the rows in buffers of their own. A pickled slice contains the buffers of all rows it was cut from."""
    return batch.take(np.arange(batch.num_rows))
