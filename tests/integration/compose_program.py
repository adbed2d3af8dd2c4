"""Finds Docker Compose, which checks a file without an engine. `python compose_program.py` fetches it if missing.

Hosts without it get the program of Debian's package, unpacked in `.data`. Debian 12 has only version 1, which reads an
older format; the package of Debian 13 runs there too. apt verifies it with the keys of the host.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HOME = ROOT / ".data" / "docker-compose"
FETCHED = HOME / "usr" / "libexec" / "docker" / "cli-plugins" / "docker-compose"
SOURCE = """Types: deb
URIs: http://deb.debian.org/debian
Suites: trixie
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
"""
#: The time limit for indexes of 10 MB and a package of 13 MB. A longer download means that no mirror is reachable.
TIMEOUT_S = 120


def compose_command() -> list[str] | None:
    """Returns the command that runs Compose of version 2 or later, or None if it is missing."""
    for command in (["docker", "compose"], ["docker-compose"], [str(FETCHED)]):
        if shutil.which(command[0]) is None:
            continue
        done = subprocess.run([*command, "version", "--short"], capture_output=True, text=True, check=False)
        major = done.stdout.strip().removeprefix("v").partition(".")[0]
        if done.returncode == 0 and major.isdecimal() and int(major) >= 2:
            return command
    return None


def fetch_compose() -> str | None:
    """Unpacks Debian's package in `.data`. Returns the reason if it could not be fetched, otherwise None."""
    missing = [program for program in ("apt-get", "dpkg-deb") if shutil.which(program) is None]
    if missing:
        return f"Docker Compose comes as a package of Debian, and {missing[0]} is missing"
    # Separate lists and settings: the host's apt does not change, and root is not needed.
    for folder in ("lists/partial", "cache/archives/partial"):
        (HOME / folder).mkdir(parents=True, exist_ok=True)
    source = HOME / "trixie.sources"
    source.write_text(SOURCE)
    settings = {
        "Dir::Etc::sourcelist": source,
        "Dir::Etc::sourceparts": "-",
        "Dir::State::lists": HOME / "lists",
        "Dir::Cache": HOME / "cache",
        "Acquire::Languages": "none",
        "APT::Sandbox::User": "",
        "APT::Update::Error-Mode": "any",
    }
    apt_get = ["apt-get", "-qq", *(f"-o{name}={value}" for name, value in settings.items())]
    try:
        for command in ([*apt_get, "update"], [*apt_get, "download", "docker-compose"]):
            subprocess.run(command, cwd=HOME, capture_output=True, text=True, check=True, timeout=TIMEOUT_S)
        (package,) = HOME.glob("docker-compose_*.deb")
        subprocess.run(["dpkg-deb", "-x", package, HOME], capture_output=True, text=True, check=True, timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired as error:
        return f"no answer within {TIMEOUT_S} s from {error.cmd[0]}"
    except subprocess.CalledProcessError as error:
        return f"{error.stdout}{error.stderr}"[-1000:]
    package.unlink()
    shutil.rmtree(HOME / "lists")
    shutil.rmtree(HOME / "cache")
    return None


if __name__ == "__main__":
    problem = None if compose_command() else fetch_compose()
    if problem is None and compose_command() is None:
        problem = f"{FETCHED} does not run on this host"
    sys.exit(problem)
