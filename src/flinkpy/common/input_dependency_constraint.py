"""InputDependencyConstraint: the condition for scheduling a task with blocking inputs."""

from __future__ import annotations

from enum import Enum

__all__ = ["InputDependencyConstraint"]


class InputDependencyConstraint(Enum):
    """ANY: at least one input has data. ALL: all inputs have data."""

    ANY = 0
    ALL = 1
