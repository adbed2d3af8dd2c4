"""Makes the RPC of a service process unreliable: on the PYTHONPATH of a cluster under test, and not otherwise loaded.

`RPC_FAULT` is what befalls unary calls between services: `lost-request` (it never arrives), `lost-response` (it
arrives, its answer does not) or `duplicate` (it arrives twice, one after the other). `RPC_FAULT_BUDGET` is a
directory with a file for each call that may still be hit, named `Service.call`: taking a file away is how one process
of the cluster, and only one, hits it. `duplicate` hits every call, always. What was hit is named in `fired` beside
it.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path


def _make_unreliable(fault: str, budget: Path) -> None:
    from flinkpy.common.errors import RpcTimeoutError, RpcUnavailableError
    from flinkpy.rpc import client

    reliable = client.Gateway.__getattr__
    fired = budget / "fired"

    def is_hit(name: str) -> bool:
        if fault != "duplicate":
            try:
                (budget / name).unlink()
            except FileNotFoundError:
                return False
        (fired / name).touch()
        return True

    def unreliable(gateway, method):
        call = reliable(gateway, method)
        name = f"{gateway._service}.{method}"
        if gateway._methods[method].server_streaming or gateway._methods[method].client_streaming:
            return call

        async def faulty(request, timeout_s=client.DEFAULT_TIMEOUT_S):
            if not is_hit(name):
                return await call(request, timeout_s)
            if fault == "lost-request":
                raise RpcUnavailableError(f"{name}: the request was lost on purpose")
            await call(request, timeout_s)
            if fault == "lost-response":
                raise RpcTimeoutError(f"{name}: the response was lost on purpose")
            return await call(request, timeout_s)

        gateway.__dict__[method] = faulty
        return faulty

    client.Gateway.__getattr__ = unreliable


if "RPC_FAULT" in os.environ and any("flinkpy" in argument for argument in sys.orig_argv):
    _make_unreliable(os.environ["RPC_FAULT"], Path(os.environ["RPC_FAULT_BUDGET"]))
