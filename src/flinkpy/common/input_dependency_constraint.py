"""InputDependencyConstraint: when a task whose inputs are blocking may be scheduled."""

from __future__ import annotations

from enum import Enum

__all__ = ["InputDependencyConstraint"]


class InputDependencyConstraint(Enum):
    """ANY: one input has data. ALL: every input has."""

    ANY = 0
    ALL = 1
