"""The part of a task in a checkpoint after its barrier has arrived: it takes, writes and reports the snapshot."""
