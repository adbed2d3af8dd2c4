"""The ResourceManager: tracks TaskExecutors and their slots, and starts workers when slots are missing."""
