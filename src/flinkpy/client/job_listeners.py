"""JobListeners: the listeners that `execution.job-listeners` names."""

from __future__ import annotations

import importlib
import logging
from typing import Any

from flinkpy.common.errors import ConfigurationError
from flinkpy.configuration import client_options
from flinkpy.configuration.options import AnyConfiguration, read_option

logger = logging.getLogger(__name__)


class JobListeners:
    """The listeners in `execution.job-listeners`, called when the program submits a job and when the job has ended.

    A listener is a class of the user whose constructor takes no arguments. It has one or both of these methods:

        def on_job_submitted(self, job_client, error): ...      # one of the two is None
        def on_job_executed(self, job_execution_result, error): ...

    They run in the program's process, on the thread that submits the job or waits for it. An error in a listener is
    logged and has no other effect.

    Source: org.apache.flink.core.execution.JobListener.

    Raises:
        ConfigurationError: a listener cannot be created.
    """

    def __init__(self, configuration: AnyConfiguration) -> None:
        names = read_option(configuration, client_options.JOB_LISTENERS)
        self._listeners = [_make_listener(name.strip()) for name in names if name.strip()]

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
                logger.exception("Job listener %s failed in %s", type(listener).__name__, what)


def _make_listener(name: str) -> Any:
    module, _, attribute = name.rpartition(".")
    try:
        return getattr(importlib.import_module(module), attribute)()
    except Exception as error:
        raise ConfigurationError(
            f"option `execution.job-listeners`: cannot create {name} ({type(error).__name__}: {error}). Name a class "
            "as `package.module.Class`; it must be importable, and its constructor must take no arguments",
            details={"option": client_options.JOB_LISTENERS.key},
        ) from error
