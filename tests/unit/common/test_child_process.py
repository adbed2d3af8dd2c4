from __future__ import annotations

import asyncio
import os
import signal
import sys

from flinkpy.common.child_process import ChildOutput, spawn_child


def test_a_child_that_dies_while_it_is_killed_still_reports_its_status():
    async def run() -> set[str]:
        endings = set()
        for _ in range(10):
            command = [sys.executable, "-S", "-c", "import time; time.sleep(60)"]
            child = await spawn_child(command, name="sleeper", output=ChildOutput.KEEP)
            os.kill(child.pid, signal.SIGKILL)
            while not child.has_ended:
                child.terminate()
                await asyncio.sleep(0)
            endings.add((await child.wait()).description)
        return endings

    assert asyncio.run(run()) == {"killed by SIGKILL"}
