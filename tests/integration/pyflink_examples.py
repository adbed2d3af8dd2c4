"""Fetches the examples of PyFlink. `python pyflink_examples.py` exits with 0 if they are available.

They are part of the wheel `apache-flink`, which is small without its dependencies. They are stored in `.data`.
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
VERSION = "2.3.0"
#: The hash of the wheel for one interpreter and platform: the examples are the same in all wheels.
SHA256 = "0e5f612704de1610b153e919c0564b62ad513cddfcf4960f5a021658cdf41a13"
WHEEL_OF = ("--implementation=cp", "--python-version=3.11", "--abi=cp311", "--platform=manylinux2014_x86_64")
FOLDER = "pyflink/examples/"
#: The time limit for a wheel of 3 MB. A longer download means that PyPI is not reachable.
TIMEOUT_S = 120


def fetch_examples() -> tuple[Path, str | None]:
    """Returns the folder of the examples, with the folders `datastream` and `table`, and the reason if they are
    unavailable. Several processes may call it at once.

    Raises:
        ValueError: if PyPI delivered another wheel than the one that the tests were written for.
    """
    home = ROOT / ".data" / f"pyflink-examples-{VERSION}"
    examples = home / "examples"
    home.mkdir(parents=True, exist_ok=True)
    with open(home / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if examples.exists():
            return examples, None
        download = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        chosen = ["--only-binary=:all:", *WHEEL_OF, f"--dest={home}", f"apache-flink=={VERSION}"]
        try:
            done = subprocess.run([*download, *chosen], capture_output=True, text=True, check=False, timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            return examples, f"PyPI did not deliver apache-flink {VERSION} within {TIMEOUT_S} s"
        if done.returncode:
            return examples, f"{done.stdout}{done.stderr}"[-1000:]
        (wheel,) = home.glob("*.whl")
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        if digest != SHA256:
            wheel.unlink()
            raise ValueError(f"{wheel.name} has the SHA-256 {digest} instead of {SHA256}")
        unpacked = home / "unpacked"
        shutil.rmtree(unpacked, ignore_errors=True)
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(unpacked, [name for name in archive.namelist() if name.startswith(FOLDER)])
        # The rename makes sure that an interrupted run leaves no incomplete folder.
        (unpacked / FOLDER).rename(examples)
        shutil.rmtree(unpacked)
        wheel.unlink()
    return examples, None


if __name__ == "__main__":
    _, reason = fetch_examples()
    sys.exit(reason)
