"""Options of remote calls. The keys keep Flink's `pekko.` prefix, though nothing of Pekko is left behind them.

Source: org.apache.flink.configuration.RpcOptions.
"""

from __future__ import annotations

from flinkpy.configuration.options import duration_option

ASK_TIMEOUT = duration_option("pekko.ask.timeout", "10 s", "Timeout of a remote call.", minimum_ms=1)
