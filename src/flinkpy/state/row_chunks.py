"""RowChunks: rows in Arrow columns, at positions. The memory in which a RowTable keeps its rows.

Rows are appended to the tail, which consists of a few pieces. When it has CHUNK_ROWS rows it becomes a chunk. A chunk
never changes, so a snapshot only copies references. A row at position p is in chunk p // CHUNK_ROWS.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from flinkpy.records.gather import can_gather, gather, table_of

#: Copying a chunk takes a few ms, and offsets of strings have 31 bits.
CHUNK_BITS = 16
CHUNK_ROWS = 1 << CHUNK_BITS
#: Below this number of rows it does not pay to look for rows that are taken several times.
_MIN_SHARED = 256
#: How many pieces of the tail are merged at once. More pieces make `gather` no slower.
_MERGED, _MERGED_TO_GATHER = 8, 32
#: The tail has fewer pieces: at most one less than are merged of each length, and lengths differ by that factor.
_MAX_PIECES = 128


class RowChunks:
    """Thread: task thread.

    Attributes:
        filled: the numbers of the chunks that have become full. The owner clears the list.
    """

    def __init__(self, types: Sequence[pa.DataType]) -> None:
        self.types = list(types)
        self.filled: list[int] = []
        #: The columns of each chunk by its number; None for numbers that may be used again.
        self._chunks: list[list[pa.Array] | None] = []
        self._free: list[int] = []
        #: Per column, the pieces of the tail.
        self._pieces: list[list[pa.Array]] = [[] for _ in types]
        self._piece_ends: list[int] = []
        #: By column that can be gathered: where the buffers of the tail's pieces are, and, after _MAX_PIECES rows,
        #: those of the chunks.
        self._tables = {
            column: np.zeros((_MAX_PIECES, 4), dtype=np.int64) for column, kind in enumerate(types) if can_gather(kind)
        }
        self._merged = _MERGED_TO_GATHER if self._tables else _MERGED
        #: The columns with NULLs, now or before.
        self._with_nulls: set[int] = set()
        self._tail = self._new_chunk()

    def _new_chunk(self) -> int:
        if self._free:
            return self._free.pop()
        self._chunks.append(None)
        return len(self._chunks) - 1

    @property
    def num_chunks(self) -> int:
        """All positions are below this number of chunks."""
        return len(self._chunks)

    @property
    def tail(self) -> int:
        """The number of the chunk to which rows are appended."""
        return self._tail

    @property
    def size_bytes(self) -> int:
        """The memory of the rows, including removed ones that have not been dropped."""
        chunks = [column for chunk in self._chunks if chunk is not None for column in chunk]
        return sum(column.nbytes for column in chunks) + sum(piece.nbytes for each in self._pieces for piece in each)

    # -- changes -----------------------------------------------------------------------------------------------------

    def append(self, columns: Sequence[pa.Array]) -> np.ndarray:
        """Appends rows. Returns int64[n]: their positions. The columns are copied, unless they fill a chunk."""
        length = len(columns[0])
        positions = np.empty(length, dtype=np.int64)
        begin = 0
        while begin < length:
            used = self._piece_ends[-1] if self._piece_ends else 0
            count = min(length - begin, CHUNK_ROWS - used)
            first = (self._tail << CHUNK_BITS) + used
            positions[begin : begin + count] = np.arange(first, first + count)
            self._append_piece([column.slice(begin, count) for column in columns], count)
            begin += count
        return positions

    def _append_piece(self, columns: list[pa.Array], count: int) -> None:
        ends = self._piece_ends
        is_full = (ends[-1] if ends else 0) + count == CHUNK_ROWS
        kept = 0 if is_full else self._kept_pieces(count)
        for pieces, column in zip(self._pieces, columns):
            # Copies: the column may be a part of a much larger buffer.
            pieces[kept:] = [pa.concat_arrays([*pieces[kept:], column]) if kept < len(pieces) else _copied(column)]
        end = (ends[-1] if ends else 0) + count
        ends[kept:] = [end]
        if not is_full:
            for column, table in self._tables.items():
                piece = self._pieces[column][kept]
                table[kept] = table_of([piece])[0]
                if piece.null_count:
                    self._with_nulls.add(column)
        else:
            self._chunks[self._tail] = full = self._filled([pieces[0] for pieces in self._pieces])
            for column, table in self._tables.items():
                if _MAX_PIECES + self._tail >= len(table):
                    self._tables[column] = table = np.append(table, np.zeros_like(table), axis=0)
                table[_MAX_PIECES + self._tail] = table_of([full[column]])[0]
                if full[column].null_count:
                    self._with_nulls.add(column)
            self._pieces = [[] for _ in self.types]
            self._piece_ends = []
            self.filled.append(self._tail)
            self._tail = self._new_chunk()

    def _kept_pieces(self, count: int) -> int:
        """Returns how many pieces of the tail stay as they are when one with `count` rows is added.

        As many pieces of about the same length as `_merged` become one. So a row is copied once per power of `_merged`
        between the length of a batch and that of a chunk, and the tail has few pieces.
        """
        ends = self._piece_ends
        kept = len(ends)
        while kept >= self._merged - 1:
            first = kept - (self._merged - 1)
            total = count + ends[len(ends) - 1] - (ends[first - 1] if first else 0)
            if any(ends[i] - (ends[i - 1] if i else 0) > self._merged * count for i in range(first, kept)):
                break
            kept, count = first, total
        return kept if kept < _MAX_PIECES else 0

    def _filled(self, columns: list[pa.Array]) -> list[pa.Array]:
        """Returns the columns of the tail, which is full now, in the form in which they are kept."""
        return columns

    def drop(self, chunk: int) -> None:
        """Drops a full chunk. Its number is used again."""
        self._chunks[chunk] = None
        self._free.append(chunk)

    # -- reading -----------------------------------------------------------------------------------------------------

    def take(self, positions: np.ndarray, columns: Sequence[int]) -> list[pa.Array]:
        """Returns these columns of the rows at these positions."""
        taken: dict[int, pa.Array] = {}
        if len(positions) and any(column in self._tables for column in columns):
            sources, places = self._located(positions)
            for column in set(columns) & self._tables.keys():
                has_nulls = column in self._with_nulls
                values = gather(self.types[column], self._tables[column], has_nulls, sources, places)
                if values is not None:
                    taken[column] = values
        rest = [column for column in columns if column not in taken]
        if rest:
            taken.update(zip(rest, self._take_by_source(positions, rest)))
        return [taken[column] for column in columns]

    def _located(self, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns the entry of each row's piece or chunk in `_tables`, and the row's place there."""
        chunks = positions >> CHUNK_BITS
        places = positions & (CHUNK_ROWS - 1)
        sources = chunks + _MAX_PIECES
        ends = self._piece_ends
        in_tail = np.flatnonzero(chunks == self._tail) if ends else ()
        if len(in_tail):
            piece = np.searchsorted(np.array(ends), places[in_tail], side="right")
            sources[in_tail] = piece
            places[in_tail] -= np.array([0, *ends[:-1]])[piece]
        return sources, places

    def _take_by_source(self, positions: np.ndarray, columns: Sequence[int]) -> list[pa.Array]:
        """Takes from each chunk and piece, and brings the results into the order of the positions."""
        if not len(positions):
            return [pa.array([], self.types[column]) for column in columns]
        if len(positions) >= _MIN_SHARED and any(not _is_fixed(self.types[column]) for column in columns):
            # Rows often occur several times, for example those of one side of a join. Copies each once from its chunk.
            distinct, places = np.unique(positions, return_inverse=True)
            if 2 * len(distinct) <= len(positions):
                indices = pa.array(places)
                return [values.take(indices) for values in self._take_by_source(distinct, columns)]
        chunks = positions >> CHUNK_BITS
        offsets = positions & (CHUNK_ROWS - 1)
        low, high = int(chunks.min()), int(chunks.max())
        ends = self._piece_ends
        if low == high and (low != self._tail or len(ends) == 1):
            indices = pa.array(offsets)
            return [self._piece(low, 0, column).take(indices) for column in columns]
        # A source is a chunk or a piece of the tail. Pieces have the numbers after those of the chunks.
        sources = chunks
        if len(ends) > 1 and low <= self._tail <= high:
            in_tail = np.flatnonzero(chunks == self._tail)
            piece = np.searchsorted(np.array(ends), offsets[in_tail], side="right")
            begins = np.array([0, *ends[:-1]])
            offsets[in_tail] -= begins[piece]
            sources = chunks.copy()
            sources[in_tail[piece > 0]] = len(self._chunks) + piece[piece > 0]
        num_sources = len(self._chunks) + len(ends)
        order = np.argsort(sources.astype(np.uint16 if num_sources < 1 << 16 else np.int64), kind="stable")
        sources, offsets = sources[order], offsets[order]
        starts = np.flatnonzero(np.append(True, sources[1:] != sources[:-1]))
        stops = np.append(starts[1:], len(sources))
        parts = [
            (int(sources[start]), pa.array(offsets[start:stop])) for start, stop in zip(starts.tolist(), stops.tolist())
        ]
        back = np.empty(len(order), dtype=np.int64)
        back[order] = np.arange(len(order))
        in_order = pa.array(back)
        taken = []
        for column in columns:
            pieces = [self._source(number, column).take(indices) for number, indices in parts]
            taken.append((pa.concat_arrays(pieces) if len(pieces) > 1 else pieces[0]).take(in_order))
        return taken

    def _source(self, number: int, column: int) -> pa.Array:
        if number < len(self._chunks):
            return self._piece(number, 0, column)
        return self._pieces[column][number - len(self._chunks)]

    def _piece(self, chunk: int, piece: int, column: int) -> pa.Array:
        columns = self._chunks[chunk]
        if columns is not None:
            return columns[column]
        return self._pieces[column][piece]

    def frozen(self) -> FrozenChunks:
        """Returns the rows as they are now. Copies references only."""
        chunks = [None if chunk is None else [chunk] for chunk in self._chunks]
        pieces = [[each[number] for each in self._pieces] for number in range(len(self._piece_ends))]
        chunks[self._tail] = pieces or None
        return FrozenChunks(self.types, chunks)


class FrozenChunks:
    """The rows of a snapshot. Thread: any.

    Args:
        chunks: the pieces of each chunk, each a list of columns; None for chunks without rows.
    """

    def __init__(self, types: list[pa.DataType], chunks: list[list[list[pa.Array]] | None]) -> None:
        self._types = types
        self._chunks = chunks

    def take(self, positions: np.ndarray) -> list[pa.Array]:
        """Returns all columns of the rows at these positions."""
        out: list[list[pa.Array]] = [[] for _ in self._types]
        if not len(positions):
            return [pa.array([], kind) for kind in self._types]
        chunks = positions >> CHUNK_BITS
        order = np.argsort(chunks, kind="stable")
        chunks, offsets = chunks[order], positions[order] & (CHUNK_ROWS - 1)
        starts = np.flatnonzero(np.append(True, chunks[1:] != chunks[:-1]))
        for start, stop in zip(starts.tolist(), [*starts[1:].tolist(), len(chunks)]):
            pieces = self._chunks[int(chunks[start])]
            assert pieces is not None
            indices = pa.array(offsets[start:stop])
            for column in range(len(self._types)):
                whole = [piece[column] for piece in pieces]
                out[column].append((pa.concat_arrays(whole) if len(whole) > 1 else whole[0]).take(indices))
        back = np.empty(len(order), dtype=np.int64)
        back[order] = np.arange(len(order))
        in_order = pa.array(back)
        return [(pa.concat_arrays(parts) if len(parts) > 1 else parts[0]).take(in_order) for parts in out]

    def drop(self) -> None:
        self._chunks = []


def _copied(column: pa.Array) -> pa.Array:
    """Returns a copy that shares no buffers with the column."""
    if not len(column):
        return pa.array([], column.type)
    return pa.concat_arrays([column, column.slice(0, 0)]) if _is_slice(column) else column


def _is_fixed(kind: pa.DataType) -> bool:
    """True if a value has a fixed number of bytes, so that copying it twice is cheap."""
    return pa.types.is_primitive(kind) or pa.types.is_decimal(kind)


def _is_slice(column: pa.Array) -> bool:
    size = sum(buffer.size for buffer in column.buffers() if buffer is not None)
    return size > 2 * column.nbytes
