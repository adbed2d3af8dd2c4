from __future__ import annotations

import bz2
import gzip
import itertools
import lzma
import zlib

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinkpy.common.errors import ExternalError, InputFormatError
from flinkpy.formats import line_chunks
from flinkpy.formats.file_format import FileSourceSplit
from flinkpy.formats.text_line import TextLineFormat


def splits_at(path, *cuts):
    size = path.stat().st_size
    bounds = [0, *cuts, size]
    return [FileSourceSplit(str(i), str(path), a, b - a, size) for i, (a, b) in enumerate(itertools.pairwise(bounds))]


def lines_of(splits, charset="UTF-8", max_batch_rows=1000):
    lines = []
    for split in splits:
        reader = TextLineFormat(charset).open(split, max_batch_rows)
        try:
            while (batch := reader.read_batch()) is not None:
                assert 0 < batch.num_rows <= max_batch_rows
                lines.extend(batch.values)
        finally:
            reader.close()
    return lines


def expected_lines(content):
    text = content.decode().removeprefix("\ufeff")
    lines = text.split("\n")
    return [line.removesuffix("\r") for line in (lines if lines[-1] else lines[:-1])]


CONTENTS = [
    b"one\ntwo\nthree\n",
    b"no newline at the end",
    b"one\ntwo\nno newline at the end",
    b"\n\n\n",
    b"\n\nx\n\n",
    b"\xef\xbb\xbfmarked\nsecond\n",
    b"windows\r\nlines\r\n",
    "über\ngrößer\n€\n".encode(),
    b"a very long first line that spans splits\nx\n",
]


@pytest.mark.parametrize("content", CONTENTS)
def test_a_file_split_at_any_two_bytes_has_each_line_exactly_once(tmp_path, content):
    path = tmp_path / "a.txt"
    path.write_bytes(content)
    for first in range(len(content) + 1):
        for second in range(first, len(content) + 1):
            assert lines_of(splits_at(path, first, second)) == expected_lines(content), (first, second)


@pytest.mark.parametrize("content", CONTENTS)
@pytest.mark.parametrize("target_bytes", [1, 2, 5])
def test_each_line_is_read_once_if_pieces_are_smaller_than_a_line(tmp_path, monkeypatch, content, target_bytes):
    monkeypatch.setattr(line_chunks, "MIN_CHUNK_BYTES", 1)
    monkeypatch.setattr(line_chunks, "MAX_CHUNK_BYTES", target_bytes)
    monkeypatch.setattr(line_chunks.ChunkSizer, "_FIRST_BYTES", target_bytes)
    path = tmp_path / "a.txt"
    path.write_bytes(content)
    for cut in range(len(content) + 1):
        assert lines_of(splits_at(path, cut), max_batch_rows=2) == expected_lines(content), cut


@given(
    lines=st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\n\r\ufeff"), max_size=30), max_size=20),
    ends_with_newline=st.booleans(),
    fractions=st.lists(st.floats(0, 1), max_size=6),
)
def test_any_text_is_read_whole_from_splits_at_any_bytes(tmp_path_factory, lines, ends_with_newline, fractions):
    path = tmp_path_factory.mktemp("text") / "a.txt"
    content = ("\n".join(lines) + ("\n" if ends_with_newline and lines else "")).encode()
    path.write_bytes(content)
    cuts = sorted(int(len(content) * fraction) for fraction in fractions)
    assert lines_of(splits_at(path, *cuts)) == (expected_lines(content) if content else [])


@pytest.mark.parametrize(
    ("suffix", "compress"),
    [
        ("gz", gzip.compress),
        ("GZ", gzip.compress),
        ("bz2", bz2.compress),
        ("xz", lzma.compress),
        ("deflate", zlib.compress),
        ("zst", lambda data: pa.Codec("zstd").compress(data, asbytes=True)),
    ],
)
def test_compressed_files_are_read_whole(tmp_path, suffix, compress):
    path = tmp_path / f"a.txt.{suffix}"
    content = b"".join(b"line %d\n" % number for number in range(50_000))
    path.write_bytes(compress(content))
    assert not TextLineFormat().is_splittable(str(path))
    assert lines_of(splits_at(path)) == expected_lines(content)


def test_the_error_names_a_damaged_compressed_file(tmp_path):
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(b"line\n" * 100_000)[:-50])
    with pytest.raises(InputFormatError, match=r"a\.gz cannot be decompressed"):
        lines_of(splits_at(path))
    path.write_bytes(b"this is not gzip")
    with pytest.raises(InputFormatError, match=r"a\.gz cannot be decompressed"):
        lines_of(splits_at(path))


@pytest.mark.parametrize("charset", ["utf-16", "utf-32-le"])
def test_charsets_with_wide_newlines_are_read_whole(tmp_path, charset):
    path = tmp_path / "a.txt"
    content = "".join(f"line {number} ਊ\n" for number in range(3_000))
    path.write_bytes(content.encode(charset))
    assert not TextLineFormat(charset).is_splittable(str(path))
    assert lines_of(splits_at(path), charset) == content.splitlines()


def test_latin_1_files_are_split_and_invalid_bytes_are_replaced(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"\xfcber\nx\n")
    assert TextLineFormat("ISO-8859-1").is_splittable(str(path))
    assert lines_of(splits_at(path, 3), "ISO-8859-1") == ["über", "x"]
    assert lines_of(splits_at(path, 3)) == ["\ufffdber", "x"]


def test_an_unknown_charset_is_refused():
    with pytest.raises(LookupError):
        TextLineFormat("klingon")


def test_a_file_that_shrinks_while_it_is_read_is_an_error(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"x\n" * 100)
    splits = splits_at(path)
    path.write_bytes(b"x\n" * 10)
    with pytest.raises(ExternalError, match="was truncated while it was read"):
        lines_of(splits)


def test_a_line_without_end_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(line_chunks, "MAX_RECORD_BYTES", 100_000)
    path = tmp_path / "a.bin"
    path.write_bytes(b"x" * 3_000_000)
    with pytest.raises(InputFormatError, match="the file has another format"):
        lines_of(splits_at(path))
    with pytest.raises(InputFormatError, match="the file has another format"):
        lines_of(splits_at(path, 1_000)[1:])
