"""RetryingRegistration: register at another endpoint until it works, with back-off.

Source: org.apache.flink.runtime.registration.RetryingRegistration and the options cluster.registration.*.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from flinkpy.common.errors import FlinkError, NotLeaderError, RpcTimeoutError, RpcUnavailableError, TlsError
from flinkpy.rpc.endpoint import RpcEndpoint

logger = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RegistrationOptions:
    """cluster.registration.{initial-timeout,max-timeout,error-delay,refused-registration-delay}."""

    initial_timeout_ms: int = 100
    max_timeout_ms: int = 30_000
    error_delay_ms: int = 10_000
    refused_delay_ms: int = 30_000


class RetryingRegistration(Generic[T]):
    """Calls `register(timeout_s)` until it answers, then `on_success(response)`.

    Not reachable, not the leader (yet) or no answer in time: the time-out doubles up to its maximum, and is also the
    pause up to the error delay (a peer that is just starting is met soon). Any other typed error is a refusal:
    `on_refused(error)` decides; True tries again after the refused delay. Thread: the endpoint's main thread.
    """

    def __init__(
        self,
        endpoint: RpcEndpoint,
        name: str,
        register: Callable[[float], Awaitable[T]],
        on_success: Callable[[T], None],
        *,
        options: RegistrationOptions | None = None,
        on_refused: Callable[[FlinkError], bool] | None = None,
    ) -> None:
        self._endpoint = endpoint
        self._name = name
        self._register = register
        self._on_success = on_success
        self._on_refused = on_refused
        self._options = options or RegistrationOptions()
        self._task: asyncio.Task[Any] | None = None

    def start(self) -> None:
        self._task = self._endpoint.run_async(self._run(), self._done, f"register {self._name}")

    def cancel(self) -> None:
        """Give up; `on_success` is not called any more."""
        if self._task is not None:
            self._task.cancel()

    def _done(self, response: Any, error: BaseException | None) -> None:
        if error is not None:
            if not isinstance(error, _GaveUp):
                self._endpoint.on_fatal_error(error)
            return
        self._on_success(response)

    async def _run(self) -> T:
        timeout_ms = self._options.initial_timeout_ms
        while True:
            try:
                # A first call also makes the connection; give it longer than Flink's first 100 ms.
                return await self._register(max(timeout_ms, 1_000) / 1000)
            except (RpcUnavailableError, RpcTimeoutError, NotLeaderError) as error:
                pause_ms = min(timeout_ms, self._options.error_delay_ms)
                # Nobody there is usual at the start; certificates that do not match will not mend themselves.
                level = logging.WARNING if isinstance(error, TlsError) else logging.DEBUG
                logger.log(level, "%s: %s; next try in %d ms", self._name, error, pause_ms)
                await asyncio.sleep(pause_ms / 1000)
                timeout_ms = min(timeout_ms * 2, self._options.max_timeout_ms)
            except FlinkError as error:
                logger.warning("%s refused: %s", self._name, error)
                if self._on_refused is None or not self._on_refused(error):
                    raise _GaveUp(str(error)) from error
                await asyncio.sleep(self._options.refused_delay_ms / 1000)


def check_leader(answered_id: str, expected_id: str | None, address: str) -> None:
    """Whoever took the registration is the leader that was looked for; None: it was not known by its token.

    Raises: NotLeaderError.
    """
    if expected_id is not None and answered_id != expected_id:
        raise NotLeaderError(
            f"{address} answers as {answered_id}, the leader is {expected_id}",
            details={"expected": expected_id, "got": answered_id},
        )


class _GaveUp(FlinkError):
    """Refused for good; `on_refused` has been told."""
