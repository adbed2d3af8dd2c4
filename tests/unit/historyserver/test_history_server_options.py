"""The options of the history server are checked at its start."""

from __future__ import annotations

import pytest

from flinkpy.common.errors import ConfigurationError
from flinkpy.historyserver.archive_fetcher import Retention
from flinkpy.historyserver.options import history_server_options

DIRECTORIES = {"historyserver.archive.fs.dir": "file:///a/, s3://bucket/b,/a"}


def test_options_are_read() -> None:
    options = history_server_options(
        {
            **DIRECTORIES,
            "historyserver.archive.retained-applications": "3",
            "historyserver.archive.retained-ttl": "1 d",
            "historyserver.archive.clean-expired-applications": "true",
            "historyserver.web.port": "0",
        }
    )
    assert options.directories == ("/a", "s3://bucket/b")
    assert options.applications == Retention(max_archives=3, ttl_ms=86_400_000, cleans_expired=True)
    assert options.jobs == Retention(ttl_ms=86_400_000)
    assert (options.web.ports, options.web.takes_free_port) == ((0,), False)


@pytest.mark.parametrize(
    ("settings", "culprit"),
    [
        ({}, "historyserver.archive.fs.dir"),
        ({"historyserver.archive.fs.dir": "relative"}, "relative"),
        ({**DIRECTORIES, "historyserver.archive.retained-jobs": "0"}, "historyserver.archive.retained-jobs"),
        ({**DIRECTORIES, "historyserver.archive.retained-jobs": "-2"}, "historyserver.archive.retained-jobs"),
        (
            {**DIRECTORIES, "historyserver.log.jobmanager.url-pattern": "javascript:alert(1)"},
            "historyserver.log.jobmanager.url-pattern",
        ),
        (
            {**DIRECTORIES, "rest.authentication": "none", "historyserver.web.address": "0.0.0.0"},
            "historyserver.web.address",
        ),
    ],
)
def test_bad_options_are_named(settings: dict[str, str], culprit: str) -> None:
    with pytest.raises(ConfigurationError, match=culprit):
        history_server_options(settings)
