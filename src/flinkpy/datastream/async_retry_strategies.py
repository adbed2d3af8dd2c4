"""PyFlink's `pyflink.datastream.async_retry_strategies`: the retry strategies of `AsyncDataStream`.

The classes live in `flinkpy.functions.async_functions`.
"""

from __future__ import annotations

from flinkpy.functions.async_functions import (
    NO_RETRY_STRATEGY,
    ExponentialBackoffDelayRetryStrategy,
    FixedDelayRetryStrategy,
    NoRetryStrategy,
    RetryPredicate,
)

__all__ = [
    "NO_RETRY_STRATEGY",
    "ExponentialBackoffDelayRetryStrategy",
    "FixedDelayRetryStrategy",
    "NoRetryStrategy",
    "RetryPredicate",
]
