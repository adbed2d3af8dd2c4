"""GPUDriver: finds the GPUs of this host by a discovery script, or by `nvidia-smi`.

Source: org.apache.flink.externalresource.gpu.{GPUDriver,GPUDriverFactory,GPUInfo}.
"""

from __future__ import annotations

import logging
import os
import shlex
import subprocess
from collections.abc import Mapping, Set
from dataclasses import dataclass
from pathlib import Path

from flinkpy.common.errors import ConfigurationError, ExternalError
from flinkpy.common.external_resource import (
    ExternalResourceDriver,
    ExternalResourceDriverFactory,
    ExternalResourceInfo,
)

logger = logging.getLogger(__name__)

_SCRIPT_PATH, _SCRIPT_ARGS = "discovery-script.path", "discovery-script.args"
#: How long a discovery may take, as in Flink.
_TIMEOUT_S = 10.0
_NVIDIA = ["nvidia-smi", "--query-gpu=index", "--format=csv,noheader"]


@dataclass(frozen=True, slots=True)
class GPUInfo(ExternalResourceInfo):
    """One GPU. Its only property is `index`, the number by which CUDA_VISIBLE_DEVICES knows it."""

    index: str

    def get_property(self, key: str) -> str | None:
        return self.index if key == "index" else None

    def get_keys(self) -> Set[str]:
        return {"index"}


class GPUDriver(ExternalResourceDriver):
    """Runs the script `discovery-script.path` with the amount and `discovery-script.args`.

    The first line of its output has the indexes of the GPUs, separated by commas. Without a script, the first GPUs that
    `nvidia-smi` lists are taken.

    Raises:
        ConfigurationError: there is no such script, or it may not be executed.
    """

    def __init__(self, parameters: Mapping[str, str]) -> None:
        self._arguments = shlex.split(parameters.get(_SCRIPT_ARGS, ""))
        path = parameters.get(_SCRIPT_PATH, "").strip()
        self._script = None if not path else Path(os.environ.get("FLINK_HOME", ".")) / path
        if self._script is not None and not os.access(self._script, os.X_OK):
            state = "is not executable" if self._script.exists() else "does not exist"
            raise ConfigurationError(f"the discovery script {self._script.absolute()} {state}")

    def retrieve_resource_info(self, amount: int) -> Set[ExternalResourceInfo]:
        """Raises: ExternalError if the script fails."""
        if self._script is None:
            indexes = _output_of(_NVIDIA).split()[:amount]
        else:
            lines = _output_of([str(self._script.absolute()), str(amount), *self._arguments]).splitlines()
            if len(lines) > 1:
                logger.warning("the discovery script printed %d lines; only the first one counts", len(lines))
            indexes = [] if not lines else [index.strip() for index in lines[0].split(",")]
        return {GPUInfo(index) for index in indexes if index}


class GPUDriverFactory(ExternalResourceDriverFactory):
    def create_external_resource_driver(self, parameters: Mapping[str, str]) -> ExternalResourceDriver:
        return GPUDriver(parameters)


def _output_of(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ExternalError(f"the discovery of GPUs by {command[0]} failed: {error}") from error
    if done.returncode:
        raise ExternalError(
            f"the discovery of GPUs by {command[0]} ended with exit code {done.returncode}: "
            f"{(done.stderr or done.stdout).strip()}"
        )
    return done.stdout
