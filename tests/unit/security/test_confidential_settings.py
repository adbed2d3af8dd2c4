"""Settings of a child process: all arrive, and confidential ones are not visible in the list of processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from flinkpy.security.confidential_settings import CONFIDENTIAL_VARIABLE, inherited_settings, settings_for_child

ENTRIES = {
    "parallelism.default": "4",
    "security.ssl.internal.keystore-password": "geheim=1\n",
    "security.token": "t" * 64,
}
#: Prints the settings that the child received, and the command line and environment that others can see.
CHILD = """
import json, sys
from flinkpy.security.confidential_settings import inherited_settings
seen = open("/proc/self/cmdline").read() + open("/proc/self/environ").read()
print(json.dumps([inherited_settings(), inherited_settings(), sys.argv[1:], seen]))
"""


def test_a_child_gets_all_settings_and_shows_none_that_is_confidential() -> None:
    with settings_for_child(ENTRIES) as settings:
        done = subprocess.run(
            [sys.executable, "-c", CHILD, *settings.arguments],
            env={**os.environ, **settings.environment},
            pass_fds=settings.descriptors,
            capture_output=True,
            check=True,
        )
    first, second, arguments, seen = json.loads(done.stdout)
    assert first == second == {key: ENTRIES[key] for key in ENTRIES if key != "parallelism.default"}
    assert arguments == ["-D", "parallelism.default=4"]
    assert "geheim" not in seen and "ttt" not in seen


def test_a_program_that_only_inherited_the_variable_has_nothing(tmp_path: Path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.delenv(CONFIDENTIAL_VARIABLE, raising=False)
    assert inherited_settings() == {}
    for number in ("987654", "-1", "x"):
        monkeypatch.setenv(CONFIDENTIAL_VARIABLE, number)
        assert inherited_settings() == {}
    with open(tmp_path / "file", "w+") as other:
        other.write('{"parallelism.default": "5"}')
        other.flush()
        monkeypatch.setenv(CONFIDENTIAL_VARIABLE, str(other.fileno()))
        assert inherited_settings() == {}
