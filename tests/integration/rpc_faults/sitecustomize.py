"""Makes the RPC of a service process unreliable. It is loaded only if its directory is on the PYTHONPATH of a cluster.

`RPC_FAULT` is the fault of unary calls between services: `lost-request` (the call does not arrive), `lost-response`
(the answer does not arrive) or `duplicate` (the call arrives twice in a row). `RPC_FAULT_BUDGET` is a directory with
one file for each call that may still be affected, named `Service.call`. The process that removes the file applies the
fault, so each fault happens once in the whole cluster. `duplicate` affects every call. The directory `fired` beside it
contains the names of the affected calls.
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
