"""Where TaskExecutor processes come from: `ResourceManagerDriver` and its implementations."""
