"""The CheckpointCoordinator of a job, which triggers its checkpoints and completes or aborts them."""
