"""AsyncWaitOperator: runs AsyncFunctions, which wait for external services, for many records at a time."""
