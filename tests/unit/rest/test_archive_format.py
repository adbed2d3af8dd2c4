"""The files of archives: what is written can be read, and damaged files get one clear error."""

from __future__ import annotations

import json
from typing import Any

import pytest

from flinkpy.rest.archive_format import (
    ArchivedAnswer,
    ArchiveError,
    application_directory,
    decode_archive,
    encode_archive,
    is_archive_id,
)


def test_answers_survive_the_archive() -> None:
    answers = [ArchivedAnswer("/jobs/overview", '{"jobs": []}'), ArchivedAnswer("/jobs/a1/plan", '{"ü": "\\u0000"}')]
    assert decode_archive(encode_archive(answers), "here") == answers


def test_an_archive_has_the_form_of_flinks() -> None:
    archive = json.loads(encode_archive([ArchivedAnswer("/jobs/overview", '{"jobs": []}')]))
    assert archive == {"archive": [{"path": "/jobs/overview", "json": '{"jobs": []}'}]}
    assert (
        application_directory("s3://b/archives/", "0" * 32, "a" * 32)
        == f"s3://b/archives/{'0' * 32}/applications/{'a' * 32}"
    )


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b'{"archive": 3}',
        b'{"archive": []}',
        b'{"archive": [{"path": "/jobs"}]}',
        b'{"archive": [{"path": "/jobs", "json": {}}]}',
        b'{"archive": [{"path": "/jobs", "json": "{"}]}',
        b'{"archive": [{"path": "jobs", "json": "{}"}]}',
        b'{"archive": [{"path": "/../x", "json": "{}"}]}',
        b'{"archive": [{"path": "//host/x", "json": "{}"}]}',
        b"[" * 100_000,
        b"\xff\xfe",
    ],
)
def test_a_damaged_archive_is_named(content: bytes) -> None:
    with pytest.raises(ArchiveError, match="/archives/x is damaged"):
        decode_archive(content, "/archives/x")


@pytest.mark.parametrize("name", ["0" * 31, "0" * 33, "G" * 32, "A" * 32, f"{'0' * 32}.unfinished", ".."])
def test_other_files_are_no_archives(name: str) -> None:
    assert not is_archive_id(name)
    assert is_archive_id("0123456789abcdef" * 2)


def test_every_path_of_the_rest_api_may_be_archived() -> None:
    from flinkpy.rest.handlers import all_operations

    for one in all_operations():
        path = one.path.replace(":", "")
        answer: Any = [ArchivedAnswer(path, "{}")]
        assert decode_archive(encode_archive(answer), "here") == answer
