"""Splittable formats read each record in exactly one split, and have a position between any two records."""

from __future__ import annotations

import json
import pickle
from itertools import pairwise
from pathlib import Path

import fastavro
import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
from connector_fakes import TestingReaderContext, read_splits
from hypothesis import given, settings
from hypothesis import strategies as st
from reading import check_every_batch_boundary, rows_of_batch

from flinkpy.common.typeinfo import Types
from flinkpy.connector_api.source import ReaderStatus
from flinkpy.connectors import file_source
from flinkpy.connectors.file_source import FileSource
from flinkpy.datastream.formats.avro import AvroSchema
from flinkpy.datastream.formats.csv import CsvReaderFormat, CsvSchema
from flinkpy.datastream.formats.parquet import AvroParquetReaders
from flinkpy.datastream.output_tag import OutputTag
from flinkpy.formats import line_chunks
from flinkpy.formats.file_format import FileSourceSplit, StreamFormat

RECORD = AvroSchema.parse_string(
    '{"type": "record", "name": "r", "fields": [{"name": "id", "type": "long"}, {"name": "name", "type": "string"}]}'
)
FIELDS = {"id": Types.LONG(), "name": Types.STRING()}
NAMES = CsvSchema.builder().add_number_column("id").add_string_column("name").build()


def make_text(path, rows):
    path.write_text("".join(f"{i},{name}\n" for i, name in rows))


def make_json(path, rows):
    path.write_text("".join(json.dumps({"id": i, "name": name}) + "\n" for i, name in rows))


def make_avro(codec):
    def make(path, rows):
        records = [{"id": i, "name": name} for i, name in rows]
        with path.open("wb") as file:
            fastavro.writer(file, RECORD.parsed, records, codec=codec, sync_interval=60)

    return make


def make_parquet(path, rows):
    table = pa.table(
        {"id": pa.array([i for i, _ in rows], pa.int64()), "name": pa.array([n for _, n in rows], pa.string())}
    )
    pq.write_table(table, path, row_group_size=7)


def make_orc(path, rows):
    table = pa.table(
        {"id": pa.array([i for i, _ in rows], pa.int64()), "name": pa.array([n for _, n in rows], pa.string())}
    )
    with orc.ORCWriter(path, stripe_size=64, compression="uncompressed") as writer:
        for start in range(0, max(len(rows), 1), 8):
            writer.write(table.slice(start, 8))
    assert orc.ORCFile(path).nstripes == -(-len(rows) // 8)


def bulk(stream_format, path):
    return FileSource.for_record_stream_format(stream_format, str(path)).build()


#: name -> (make the file, source of it, a row as the source gives it)
FORMATS = {
    "text": (make_text, lambda path: bulk(StreamFormat.text_line_format(), path), lambda i, name: f"{i},{name}"),
    "csv": (make_text, lambda path: bulk(CsvReaderFormat.for_schema(NAMES), path), lambda i, name: (i, name)),
    "json": (make_json, lambda path: FileSource.for_json(str(path), schema=FIELDS), lambda i, name: (i, name)),
    "avro": (
        make_avro("null"),
        lambda path: FileSource.for_avro(str(path), schema=RECORD),
        lambda i, name: {"id": i, "name": name},
    ),
    "avro-deflate": (
        make_avro("deflate"),
        lambda path: FileSource.for_avro(str(path), schema=RECORD),
        lambda i, name: {"id": i, "name": name},
    ),
    "parquet": (make_parquet, lambda path: FileSource.for_parquet(str(path)), lambda i, name: (i, name)),
    "parquet-avro": (
        make_parquet,
        lambda path: bulk(AvroParquetReaders.for_generic_record(RECORD), path),
        lambda i, name: {"id": i, "name": name},
    ),
    "orc": (make_orc, lambda path: FileSource.for_orc(str(path)), lambda i, name: (i, name)),
}
ROWS = [(i, f"name {i * 7 % 23}") for i in range(61)]


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    monkeypatch.setattr(line_chunks, "MIN_CHUNK_BYTES", 64)
    monkeypatch.setattr(line_chunks, "MAX_CHUNK_BYTES", 256)
    monkeypatch.setattr(line_chunks.ChunkSizer, "_FIRST_BYTES", 128)
    monkeypatch.setattr(file_source, "READ_BATCH_ROWS", 7)


def cut(path, *cuts):
    size = path.stat().st_size
    edges = [0, *sorted({min(edge, size) for edge in cuts}), size]
    return [
        FileSourceSplit(str(number), str(path), start, end - start, size)
        for number, (start, end) in enumerate(pairwise(edges))
        if end > start
    ]


def read(source, splits):
    return [row for batch in read_splits(source, splits) for row in rows_of_batch(batch)]


@pytest.fixture(scope="module", params=FORMATS)
def made(request, tmp_path_factory):
    make, source_of, row = FORMATS[request.param]
    path = Path(tmp_path_factory.mktemp("format"), "file")
    make(path, ROWS)
    return path, source_of(path), [row(*fields) for fields in ROWS]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 4000), max_size=6))
def test_a_file_split_anywhere_has_each_record_exactly_once(made, cuts):
    path, source, expected = made
    found = [read(source, [split]) for split in cut(path, *cuts)]
    assert [row for rows in found for row in rows] == expected


def test_a_reader_continues_from_a_checkpoint_between_any_two_batches(made):
    path, source, expected = made
    size = path.stat().st_size
    splits = cut(path, size // 3, size // 2)
    assert check_every_batch_boundary(source, splits, 4) == expected


def test_an_empty_file_has_no_records(made, tmp_path, request):
    name = request.node.callspec.params["made"]
    make, source_of, _ = FORMATS[name]
    make(tmp_path / "file", [])
    source = source_of(tmp_path / "file") if (tmp_path / "file").stat().st_size else made[1]
    assert read(source, cut(tmp_path / "file")) == []


BAD = OutputTag("bad")


def make_bad_csv(path, good):
    """Returns a file in which each third row is bad, also at the beginning, in the middle and at the end."""
    lines = []
    for i in range(good):
        lines += ([f"bad{i},x"] if i % 3 == 0 else []) + [f"{i},n"]
    path.write_text("\n".join([*lines, "worse,y", "one,more"]) + "\n")


def make_bad_json(path, good):
    lines = []
    for i in range(good):
        lines += ([f'{{"id": "bad{i}"}}'] if i % 3 == 0 else []) + [json.dumps({"id": i, "name": "n"})]
    path.write_text("\n".join([*lines, "nonsense", "[]"]) + "\n")


def make_bad_avro(path, good):
    """Returns a file in which each third block has a malformed record."""
    records = [{"id": i, "name": "n" * 10} for i in range(good)]
    with path.open("wb") as file:
        fastavro.writer(file, RECORD.parsed, records, sync_interval=40, sync_marker=b"S" * 16)
    parts = path.read_bytes().split(b"S" * 16)
    for number in range(1, len(parts) - 1, 3):
        # The length of the last record's name: too long.
        parts[number] = parts[number][:-11] + b"\x7f" + parts[number][-10:]
    path.write_bytes((b"S" * 16).join(parts))


def run(source, splits, max_batch_rows, num_polls=None):
    """Returns good rows, the records of the side output, and the splits that are left after `num_polls` polls."""
    context = TestingReaderContext(max_batch_rows=max_batch_rows)
    reader = source.create_reader(context)
    if splits:
        reader.add_splits(splits)
    reader.notify_no_more_splits()
    reader.start()
    good = []
    polls = 0
    while num_polls is None or polls < num_polls:
        polled = reader.poll_batch()
        if polled is ReaderStatus.END_OF_INPUT:
            break
        polls += 1
        good += rows_of_batch(polled) if polled.num_rows else []
    left = pickle.loads(pickle.dumps(reader.snapshot_state(1)))
    reader.close()
    bad = [record for tag, records in context.side_outputs for record in records]
    assert all(tag == "bad" for tag, _ in context.side_outputs)
    return good, bad, left, polls, context.metric_group.counter("numRecordsSkipped").get_count()


@pytest.mark.parametrize(
    ("make", "source_of"),
    [
        (make_bad_csv, lambda path, how: FileSource.for_csv(path, schema=FIELDS, header=False, on_error=how)),
        (make_bad_json, lambda path, how: FileSource.for_json(path, schema=FIELDS, on_error=how)),
        (make_bad_avro, lambda path, how: FileSource.for_avro(path, schema=RECORD, on_error=how)),
    ],
    ids=["csv", "json", "avro"],
)
def test_bad_records_are_emitted_exactly_once_with_any_checkpoint(tmp_path, make, source_of):
    path = tmp_path / "in"
    make(path, 40)
    size = path.stat().st_size
    splits = cut(path, size // 3, size // 2)
    source = source_of(str(path), BAD)
    good, bad, _, polls, skipped = run(source, splits, 4)
    assert len(good) >= 20
    assert len(bad) > 3
    assert skipped == len(bad)
    assert all(isinstance(raw, bytes) and str(path) in error for raw, error in bad)
    assert len(set(bad)) == len(bad)
    for boundary in range(polls + 1):
        before = run(source, splits, 4, boundary)
        after = run(source, before[2], 5)
        assert before[0] + after[0] == good, f"cut after poll {boundary}"
        assert before[1] + after[1] == bad, f"cut after poll {boundary}"
        # A job that is restored with another choice goes on at the same place.
        assert before[0] + run(source_of(str(path), "skip"), before[2], 4)[0] == good
    skipping = run(source_of(str(path), "skip"), splits, 4)
    assert (skipping[0], skipping[1], skipping[4]) == (good, [], len(bad))
