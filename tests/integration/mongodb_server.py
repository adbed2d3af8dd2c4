"""A server that speaks MongoDB's protocol: FerretDB, built from Go modules into `.data`.

`python mongodb_server.py` builds it, and exits with 0 if that is possible.
"""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_SOURCES = Path(__file__).parent / "ferretdb"
_DATA = Path(__file__).resolve().parents[2] / ".data" / "ferretdb"
#: The time limit of the first build, which compiles SQLite; the next ones take none.
_BUILD_S = 900


def build_server() -> tuple[Path, str | None]:
    """Builds the server, unless it is there. Safe for concurrent processes.

    Returns:
        The program, and the reason if it cannot be built.
    """
    program = _DATA / "ferretdb"
    if shutil.which("go") is None:
        return program, "go is not installed"
    _DATA.mkdir(parents=True, exist_ok=True)
    wanted = "".join((_SOURCES / name).read_text() for name in ("main.go", "go.mod", "go.sum"))
    built = _DATA / "sources-of-the-program"
    with open(_DATA / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not program.exists() or not built.exists() or built.read_text() != wanted:
            completed = subprocess.run(
                ["go", "build", "-o", str(program), "."],
                cwd=_SOURCES,
                capture_output=True,
                text=True,
                check=False,
                timeout=_BUILD_S,
            )
            if completed.returncode:
                return program, completed.stderr[-1000:]
            built.write_text(wanted)
    return program, None


@contextmanager
def mongodb_server(directory: Path) -> Iterator[str]:
    """Runs the server with its files in `directory`, and yields its URI."""
    from requirements import require

    program, reason = build_server()
    require("ferretdb", reason is None, str(reason))
    with (directory / "ferretdb.log").open("w") as log:
        server = subprocess.Popen(
            [str(program), str(directory)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
        )
    assert server.stdin is not None and server.stdout is not None
    try:
        uri = server.stdout.readline().strip()
        assert uri, f"FerretDB did not start: {(directory / 'ferretdb.log').read_text()}"
        yield uri
    finally:
        # It does not wait for connections that clients still have.
        server.kill()
        server.wait()
        server.stdin.close()
        server.stdout.close()


if __name__ == "__main__":
    sys.exit(build_server()[1])
