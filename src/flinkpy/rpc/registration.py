"""RetryingRegistration: registers at another endpoint, with back-off, until it succeeds.

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
    """Calls `register(timeout_s)` until it returns, then `on_success(response)`.

    If the peer cannot be reached, does not lead yet or does not answer in time, the registration is tried again. The
    time-out doubles up to its maximum. The pause before a retry is equal to the last time-out, but at most the error
    delay, so that a peer that is just starting is reached soon. Any other typed error is a refusal: if
    `on_refused(error)` returns True, the registration is tried again after the refused delay.

    Thread: the endpoint's main thread.
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
        """Stops trying. `on_success` is not called any more."""
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
                # The first call also connects, so it gets more time than Flink's first 100 ms.
                return await self._register(max(timeout_ms, 1_000) / 1000)
            except (RpcUnavailableError, RpcTimeoutError, NotLeaderError) as error:
                pause_ms = min(timeout_ms, self._options.error_delay_ms)
                # An unreachable peer is normal during start-up. Certificates that do not match need the user.
                level = logging.WARNING if isinstance(error, TlsError) else logging.DEBUG
                logger.log(level, "%s: %s; trying again in %d ms", self._name, error, pause_ms)
                await asyncio.sleep(pause_ms / 1000)
                timeout_ms = min(timeout_ms * 2, self._options.max_timeout_ms)
            except FlinkError as error:
                logger.warning("%s refused: %s", self._name, error)
                if self._on_refused is None or not self._on_refused(error):
                    raise _GaveUp(str(error)) from error
                await asyncio.sleep(self._options.refused_delay_ms / 1000)


def check_leader(answered_id: str, expected_id: str | None, address: str) -> None:
    """Checks that the process that accepted the registration is the expected leader, if its id is known.

    Raises: NotLeaderError.
    """
    if expected_id is not None and answered_id != expected_id:
        raise NotLeaderError(
            f"{address} answers as {answered_id}, the leader is {expected_id}",
            details={"expected": expected_id, "got": answered_id},
        )


class _GaveUp(FlinkError):
    """The registration was refused and is not tried again."""
