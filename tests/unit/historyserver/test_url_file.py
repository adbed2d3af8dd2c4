"""The file in which a history server tells its URL."""

from __future__ import annotations

import json
from pathlib import Path

from flinkpy.historyserver.url_file import announced_url, find_url

URL = "http://127.0.0.1:40123"


def test_the_url_is_found_while_the_server_runs(tmp_path: Path) -> None:
    configuration = {"env.pid.dir": str(tmp_path / "run")}
    assert find_url(configuration) is None
    with announced_url(configuration, URL):
        assert find_url(configuration) == URL
        with announced_url(configuration, "http://127.0.0.1:1"):
            assert find_url(configuration) == "http://127.0.0.1:1"
    assert list((tmp_path / "run").iterdir()) == []


def test_a_file_of_a_process_that_was_killed_or_of_another_program_is_not_believed(tmp_path: Path) -> None:
    configuration = {"env.pid.dir": str(tmp_path)}
    with announced_url(configuration, URL):
        (file,) = tmp_path.iterdir()
        content = json.loads(file.read_bytes())
    for changed in ({**content, "start_ticks": 1}, {"url": URL}, [], "no"):
        file.write_text(json.dumps(changed))
        assert find_url(configuration) is None


def test_a_server_runs_without_the_file_if_it_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("a file in the place of the directory")
    with announced_url({"env.pid.dir": str(tmp_path / "run")}, URL):
        assert find_url({"env.pid.dir": str(tmp_path / "run")}) is None
