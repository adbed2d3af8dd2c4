"""Settings of all tests."""

from __future__ import annotations

import signal

from hypothesis import settings

# How long one example takes says more about what else the machine is doing than about the code.
settings.register_profile("flinkpy", deadline=None, derandomize=True)
settings.load_profile("flinkpy")

# A shell that starts the tests in the background ignores SIGINT for them, and their children would inherit that: then
# no test of Ctrl-C could ever pass.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
