"""The committables that the JobMaster stores: pieces, checks, repetitions, removal."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest

from flinkpy.common.errors import CommittablesLostError, ExternalError
from flinkpy.jobmaster import kept_results
from flinkpy.jobmaster.kept_results import KeptResults

ID = "data/set#0@graph_vertex_0_1"
CONTENT = b"0123456789"


@pytest.fixture
def kept(tmp_path: Path) -> KeptResults:
    return KeptResults(tmp_path)


def store(kept: KeptResults, partition_id: str = ID, content: bytes = CONTENT, piece_bytes: int = 4) -> None:
    for offset in range(0, len(content), piece_bytes):
        kept.write(partition_id, offset, content[offset : offset + piece_bytes])
    kept.complete(partition_id, len(content), zlib.crc32(content))


def read(kept: KeptResults, partition_id: str = ID) -> bytes:
    content = b""
    while True:
        piece = kept.read(partition_id, len(content))
        content += piece.data
        if piece.is_last:
            assert piece.crc32 == zlib.crc32(content)
            return content


def test_a_result_is_read_in_pieces_as_it_was_stored(kept: KeptResults, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_results, "PIECE_BYTES", 3)
    store(kept)
    assert read(kept) == CONTENT
    assert kept.ids() == {ID}


def test_an_incomplete_result_does_not_count(kept: KeptResults) -> None:
    assert kept.ids() == frozenset()
    kept.write(ID, 0, CONTENT)
    assert kept.ids() == frozenset()
    with pytest.raises(CommittablesLostError, match="data"):
        kept.read(ID, 0)


def test_repeated_calls_change_nothing(kept: KeptResults) -> None:
    kept.write(ID, 0, CONTENT[:4])
    kept.write(ID, 0, CONTENT[:4])
    kept.write(ID, 4, CONTENT[4:])
    kept.complete(ID, len(CONTENT), zlib.crc32(CONTENT))
    kept.complete(ID, len(CONTENT), zlib.crc32(CONTENT))
    kept.write(ID, 0, b"a late repetition of another piece")
    assert read(kept) == CONTENT


def test_pieces_that_are_not_the_result_are_refused(kept: KeptResults) -> None:
    kept.write(ID, 0, CONTENT)
    with pytest.raises(ExternalError, match="does not have the content that was sent"):
        kept.complete(ID, len(CONTENT), zlib.crc32(b"another content"))
    with pytest.raises(ExternalError, match="does not have the content that was sent"):
        kept.complete(ID, len(CONTENT) + 1, zlib.crc32(CONTENT))
    assert kept.ids() == frozenset()


def test_a_piece_without_the_pieces_before_it_is_refused(kept: KeptResults) -> None:
    with pytest.raises(OSError):
        kept.write(ID, 4, CONTENT[4:])


def test_results_of_repeated_attempts_are_removed(kept: KeptResults) -> None:
    store(kept)
    store(kept, "other#0@graph_vertex_0_0")
    kept.remove([ID, "unknown#0@graph_vertex_0_0"])
    assert kept.ids() == {"other#0@graph_vertex_0_0"}


def test_nothing_is_left_after_the_job(kept: KeptResults, tmp_path: Path) -> None:
    store(kept)
    kept.write("unfinished#0@graph_vertex_0_0", 0, b"x")
    kept.remove_all()
    kept.remove_all()
    assert list(tmp_path.iterdir()) == []
