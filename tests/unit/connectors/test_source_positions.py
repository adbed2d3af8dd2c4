"""Every built-in source resumes exactly at a checkpoint between any two batches."""

from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from reading import check_every_batch_boundary, read_until

from flinkpy.common.typeinfo import Types
from flinkpy.connectors import collection, file_source
from flinkpy.connectors.collection import CollectionSource, CollectionSplit
from flinkpy.connectors.file_source import FileSource
from flinkpy.connectors.number_sequence import NumberSequenceSource
from flinkpy.formats import line_chunks
from flinkpy.formats.file_format import StreamFormat


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    monkeypatch.setattr(line_chunks, "MIN_CHUNK_BYTES", 64)
    monkeypatch.setattr(line_chunks, "MAX_CHUNK_BYTES", 256)
    monkeypatch.setattr(line_chunks.ChunkSizer, "_FIRST_BYTES", 128)
    monkeypatch.setattr(file_source, "READ_BATCH_ROWS", 7)


def splits_of(source, monkeypatch, parallelism=2):
    monkeypatch.setattr(file_source, "MIN_SPLIT_BYTES", 300)
    return source.list_splits(parallelism)


def test_number_sequence_resumes_at_every_batch():
    source = NumberSequenceSource(-5, 40)
    assert check_every_batch_boundary(source, source.split(3), 4) == list(range(-5, 41))
    top = NumberSequenceSource((1 << 63) - 12, (1 << 63) - 1)
    assert len(check_every_batch_boundary(top, top.split(2), 4)) == 12


def test_collection_resumes_at_every_batch(monkeypatch):
    monkeypatch.setattr(collection, "_ROWS_PER_BLOCK", 10)
    source = CollectionSource(range(47))
    assert check_every_batch_boundary(source, [CollectionSplit()], 3) == list(range(47))


LINES = [f"{number:03},line number {number * 7 % 23}" for number in range(60)]


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
@pytest.mark.parametrize("start", ["", "\ufeff"])
def test_text_resumes_at_every_batch(tmp_path, monkeypatch, line_end, start):
    path = tmp_path / "lines.txt"
    path.write_bytes((start + line_end.join(LINES)).encode())
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(path)).build()
    splits = splits_of(source, monkeypatch)
    assert len(splits) > 2
    assert check_every_batch_boundary(source, splits, 4) == LINES


def test_text_in_an_unsplittable_charset_resumes_at_every_batch(tmp_path):
    path = tmp_path / "lines.txt"
    path.write_bytes(("\n".join(LINES) + "\n").encode("utf-16"))
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format("UTF-16"), str(path)).build()
    assert check_every_batch_boundary(source, source.list_splits(1), 4) == LINES


def test_compressed_text_resumes_at_every_batch(tmp_path):
    path = tmp_path / "lines.gz"
    path.write_bytes(gzip.compress(("\n".join(LINES) + "\n").encode()))
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(path)).build()
    assert check_every_batch_boundary(source, source.list_splits(1), 4) == LINES


CSV_ROWS = [(number, f"name {number}" if number % 5 else 'with "quotes", and more') for number in range(50)]


def csv_text(newlines=False):
    quoted = [(number, name.replace('"', '""')) for number, name in CSV_ROWS]
    breaks = "\n" if newlines else " "
    return "id,name\n" + "".join(f'{number},"{name.replace(" and", breaks + "and")}"\n' for number, name in quoted)


def test_csv_with_a_header_resumes_at_every_batch(tmp_path, monkeypatch):
    path = tmp_path / "rows.csv"
    path.write_text(csv_text())
    source = FileSource.for_csv(str(path), schema={"id": pa.int64(), "name": pa.string()})
    splits = splits_of(source, monkeypatch)
    assert len(splits) > 1
    assert check_every_batch_boundary(source, splits, 4) == CSV_ROWS


def test_csv_with_newlines_in_values_resumes_at_every_batch(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text(csv_text(newlines=True))
    source = FileSource.for_csv(str(path), schema={"id": pa.int64(), "name": pa.string()}, newlines_in_values=True)
    rows = check_every_batch_boundary(source, source.list_splits(1), 4)
    assert rows == [(number, name.replace(" and", "\nand")) for number, name in CSV_ROWS]


def test_parquet_resumes_at_every_batch(tmp_path, monkeypatch):
    path = tmp_path / "rows.parquet"
    table = pa.table({"id": list(range(50)), "name": [f"n{number}" for number in range(50)]})
    pq.write_table(table, path, row_group_size=11)
    source = FileSource.for_parquet(str(path))
    splits = splits_of(source, monkeypatch, parallelism=1)
    assert len(splits) > 1
    assert check_every_batch_boundary(source, splits, 4) == [(number, f"n{number}") for number in range(50)]


class OwnFormat(StreamFormat):
    """A user's format without positions."""

    produced_type = Types.STRING()

    def is_splittable(self, path):
        return False

    def open(self, split, max_batch_rows):
        from flinkpy.records.batch import Batch

        class Reader:
            def __init__(self):
                self.lines = Path(split.path).read_text().splitlines()

            def read_batch(self):
                lines, self.lines = self.lines[:5], self.lines[5:]
                return Batch(lines) if lines else None

            def close(self):
                return

        return Reader()


def test_format_without_positions_resumes_from_the_start_of_the_split(tmp_path):
    path = tmp_path / "lines.txt"
    path.write_text("\n".join(LINES))
    source = FileSource.for_record_stream_format(OwnFormat(), str(path)).build()
    assert check_every_batch_boundary(source, source.list_splits(1), 4) == LINES


def test_finished_split_is_not_in_the_checkpoint():
    source = NumberSequenceSource(1, 20)
    first, second = source.split(2)
    _, left, _ = read_until(source, [first, second], 10, num_batches=2)
    assert [split.split_id for split in left] == [second.split_id]
    _, left, _ = read_until(source, [first, second], 10)
    assert left == []


def test_batch_size_may_change_between_two_polls(tmp_path):
    from connector_fakes import TestingReaderContext

    path = tmp_path / "lines.txt"
    path.write_text("\n".join(LINES))
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(path)).build()
    context = TestingReaderContext(max_batch_rows=2)
    reader = source.create_reader(context)
    reader.add_splits(source.list_splits(1))
    reader.start()
    rows = list(reader.poll_batch().values)
    context.max_batch_rows = 3
    rows += reader.poll_batch().values
    assert rows == LINES[:5]
    [left] = reader.snapshot_state(1)
    reader.close()
    assert read_until(source, [left], 100)[0] == LINES[5:]


def test_shortened_compressed_file_is_an_error(tmp_path):
    from flinkpy.common.errors import ExternalError

    path = tmp_path / "lines.gz"
    path.write_bytes(gzip.compress(("\n".join(LINES) + "\n").encode()))
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(path)).build()
    _, left, _ = read_until(source, source.list_splits(1), 4, num_batches=12)
    path.write_bytes(gzip.compress(b"0\n"))
    with pytest.raises(ExternalError, match="shorter"):
        read_until(source, left, 4)
