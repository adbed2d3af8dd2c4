"""Bounds the time of an asynchronous call, and tells the bound from a TimeoutError that the call itself raises."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def completed_within(timeout_s: float, call: Coroutine[Any, Any, T]) -> T:
    """Returns the result of a call, which is canceled after `timeout_s`; 0 for no limit.

    Raises:
        TimeoutError: if the call took longer. Errors of the call are raised as they are.
    """
    limit = asyncio.timeout(timeout_s or None)
    try:
        async with limit:
            return await call
    except TimeoutError:
        if not limit.expired():
            raise
        raise TimeoutError(f"Async function call has timed out after {timeout_s:g} s.") from None
