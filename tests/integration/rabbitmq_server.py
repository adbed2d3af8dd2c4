"""Runs a real RabbitMQ server for tests, with its own node, data, and free ports of the loopback address."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from job_support import wait_until
from ports import own_port
from requirements import require

from flinkpy.datastream.connectors.rabbitmq import RMQConnectionConfig

#: The path in Debian's package. The command on the PATH insists on its own user.
_SERVER = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")


@contextmanager
def rabbitmq(directory: Path) -> Iterator[RMQConnectionConfig]:
    """Runs the server without queues and yields its connection settings."""
    require("RabbitMQ", _SERVER.exists(), f"{_SERVER} is not there (Debian: apt-get install rabbitmq-server)")
    port, epmd_port = own_port(), own_port()
    (directory / "plugins").write_text("[].\n")
    (directory / "environment").touch()
    environment = dict(
        os.environ,
        HOME=str(directory),
        RABBITMQ_NODENAME=f"flinkpy{port}@localhost",
        RABBITMQ_MNESIA_BASE=str(directory / "data"),
        RABBITMQ_LOG_BASE=str(directory / "logs"),
        RABBITMQ_NODE_IP_ADDRESS="127.0.0.1",
        RABBITMQ_NODE_PORT=str(port),
        RABBITMQ_DIST_PORT=str(own_port()),
        RABBITMQ_ENABLED_PLUGINS_FILE=str(directory / "plugins"),
        RABBITMQ_CONF_ENV_FILE=str(directory / "environment"),
        RABBITMQ_CONFIG_FILE=str(directory / "no-config"),
        RABBITMQ_PID_FILE=str(directory / "pid"),
        ERL_EPMD_ADDRESS="127.0.0.1",
        ERL_EPMD_PORT=str(epmd_port),
    )
    config = (
        RMQConnectionConfig.Builder()
        .set_host("127.0.0.1")
        .set_port(port)
        .set_virtual_host("/")
        .set_user_name("guest")
        .set_password("guest")
        .set_network_recovery_interval(200)
        .build()
    )
    with (directory / "log").open("wb") as log:
        server = subprocess.Popen([_SERVER], env=environment, stdout=log, stderr=log, start_new_session=True)
    try:
        wait_until(lambda: _answers(config, server, directory / "log"), "RabbitMQ answers", 90)
        yield config
    finally:
        server.terminate()
        server.wait(60)
        # The port mapper started by the server is a daemon and no longer its child.
        subprocess.run(["epmd", "-kill"], env=environment, check=False, capture_output=True)


def _answers(config: RMQConnectionConfig, server: subprocess.Popen[bytes], log: Path) -> bool:
    import pika

    assert server.poll() is None, f"the RabbitMQ server ended:\n{log.read_text(errors='replace')[-3000:]}"
    try:
        config.connect().close()
    except (pika.exceptions.AMQPError, OSError):
        return False
    return True
