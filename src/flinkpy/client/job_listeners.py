"""Job listeners: the user's classes that are told of every job a program submits, and of its end.

A listener is a class without constructor arguments, with either or both of

    def on_job_submitted(self, job_client, error): ...      # one of the two is None
    def on_job_executed(self, job_execution_result, error): ...

They run in the program's process, on the thread that submits the job or waits for it. What a listener raises is logged
and changes nothing.

Source: org.apache.flink.core.execution.JobListener.
"""

from __future__ import annotations

import importlib
import logging
from typing import Any

from flinkpy.common.errors import ConfigurationError
from flinkpy.configuration import application_options
from flinkpy.configuration.options import AnyConfiguration, read_option

logger = logging.getLogger(__name__)


class JobListeners:
    """Those that `execution.job-listeners` names. Raises: ConfigurationError where one cannot be made."""

    def __init__(self, configuration: AnyConfiguration) -> None:
        names = read_option(configuration, application_options.JOB_LISTENERS)
        self._listeners = [_make(name.strip()) for name in names if name.strip()]

    def on_job_submitted(self, job_client: Any, error: BaseException | None) -> None:
        self._tell("on_job_submitted", job_client, error)

    def on_job_executed(self, result: Any, error: BaseException | None) -> None:
        self._tell("on_job_executed", result, error)

    def _tell(self, what: str, value: Any, error: BaseException | None) -> None:
        for listener in self._listeners:
            method = getattr(listener, what, None)
            if method is None:
                continue
            try:
                method(value, error)
            except Exception:
                logger.exception("the job listener %s has failed in %s", type(listener).__name__, what)


def _make(name: str) -> Any:
    module, _, attribute = name.rpartition(".")
    try:
        return getattr(importlib.import_module(module), attribute)()
    except Exception as error:
        raise ConfigurationError(
            f"option `execution.job-listeners`: {name} cannot be made ({type(error).__name__}: {error}); it has to be "
            "a class `package.module.Class` that can be imported and takes no arguments",
            details={"option": application_options.JOB_LISTENERS.key},
        ) from error
