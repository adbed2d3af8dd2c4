"""The drivers that start and stop TaskExecutor processes: `ResourceManagerDriver` and its implementations."""
