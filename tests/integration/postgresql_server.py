"""Runs a real PostgreSQL server for tests, with its own data and a free port of the loopback address."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ports import own_port
from requirements import require

#: The user of the server if the tests run as root, because it refuses to run as root.
_USER = "postgres"


def _binaries() -> Path | None:
    """Returns the directory of `initdb` and `postgres`. Debian does not add it to the path."""
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
    candidates = [*reversed(installed), *(Path(found).parent for found in [shutil.which("initdb")] if found)]
    return next((path for path in candidates if (path / "initdb").exists() and (path / "postgres").exists()), None)


@contextmanager
def postgresql(directory: Path) -> Iterator[str]:
    """Runs the server and yields the JDBC URL of an empty database of the user `flink` with the password `secret`."""
    binaries = _binaries()
    require("PostgreSQL", binaries is not None, "no initdb is found (Debian: apt-get install postgresql)")
    assert binaries is not None
    as_user: dict[str, Any] = {}
    if os.getuid() == 0:
        as_user = {"user": _USER, "group": _USER, "extra_groups": []}
        shutil.chown(directory, _USER, _USER)
    data, password = directory / "data", directory / "password"
    password.write_text("secret\n")
    if as_user:
        shutil.chown(password, _USER, _USER)
    command = [binaries / "initdb", "-D", data, "-U", "flink", "--auth=scram-sha-256", f"--pwfile={password}", "-N"]
    subprocess.run(command, check=True, capture_output=True, cwd=directory, **as_user)
    port = own_port()
    with (directory / "log").open("wb") as log:
        options = ["-h", "127.0.0.1", "-p", str(port), "-k", str(directory), "-c", "max_prepared_transactions=20", "-F"]
        server = subprocess.Popen(
            [binaries / "postgres", "-D", data, *options], stdout=log, stderr=log, cwd=directory, **as_user
        )
    try:
        subprocess.run(
            [binaries / "pg_isready", "-h", "127.0.0.1", "-p", str(port), "-t", "30"], check=False, capture_output=True
        )
        _wait_until_it_answers(port, server)
        yield f"jdbc:postgresql://127.0.0.1:{port}/postgres"
    finally:
        server.terminate()
        server.wait(30)


def _wait_until_it_answers(port: int, server: subprocess.Popen[bytes]) -> None:
    import psycopg
    from job_support import wait_until

    def answers() -> bool:
        assert server.poll() is None, "the PostgreSQL server ended"
        try:
            connect(f"jdbc:postgresql://127.0.0.1:{port}/postgres").close()
        except psycopg.OperationalError:
            return False
        return True

    wait_until(answers, "PostgreSQL answers")


def connect(url: str) -> Any:
    import psycopg

    return psycopg.connect(url.removeprefix("jdbc:"), user="flink", password="secret", autocommit=True)
