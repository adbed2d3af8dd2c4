"""The `flinkpy` command: the four services, a local cluster, and jobs."""
