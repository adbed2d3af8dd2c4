"""The CheckpointCoordinator of a job: when checkpoints are taken, of what they are made, and when they count."""
