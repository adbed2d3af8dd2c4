"""HiveService: a real Hive metastore, from the jars of the installed pyspark, with a database of its own."""

from __future__ import annotations

import logging
import time
from pathlib import Path

from ports import own_port
from spark_support import START_S, JavaService


class HiveService:
    """The metastore's service on loopback."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.warehouse = directory / "warehouse"
        self.port = own_port()
        settings = {
            "javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={directory}/metastore_db;create=true",
            "hive.metastore.warehouse.dir": f"file://{self.warehouse}",
            "datanucleus.schema.autoCreateAll": "true",
            "hive.metastore.schema.verification": "false",
            "hive.metastore.thrift.bind.host": "127.0.0.1",
            "hive.async.log.enabled": "false",
        }
        options = [part for key, value in settings.items() for part in ("--hiveconf", f"{key}={value}")]
        main = "org.apache.hadoop.hive.metastore.HiveMetaStore"
        # Hive's own settings for logs need a library that Spark does not have.
        command = [
            "-Dlog4j.configurationFile=org/apache/spark/log4j2-defaults.properties",
            main,
            "-p",
            str(self.port),
            *options,
        ]
        self._service = JavaService(directory, "metastore", command, {})

    @property
    def uri(self) -> str:
        return f"thrift://127.0.0.1:{self.port}"

    @property
    def properties(self) -> dict[str, str]:
        """The properties of the catalog."""
        return {"type": "hive", "uri": self.uri}

    def wait_until_ready(self) -> None:
        from pyiceberg.catalog.hive import HiveCatalog

        deadline = time.monotonic() + START_S
        logging.getLogger("thrift").setLevel(logging.CRITICAL)
        while True:
            try:
                with HiveCatalog._create_hive_client(self.properties) as client:
                    client.get_all_databases()
            except Exception as error:  # noqa: BLE001 - any error of a client without a service
                log = self._service.log.read_text(errors="replace")[-3000:]
                assert self._service.popen.poll() is None, f"the metastore has ended:\n{log}"
                assert time.monotonic() < deadline, f"no metastore after {START_S} s: {error}\n{log}"
                time.sleep(0.2)
            else:
                return

    def stop(self) -> None:
        self._service.stop()
