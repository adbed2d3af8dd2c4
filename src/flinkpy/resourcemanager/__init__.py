"""The ResourceManager: which TaskExecutors exist, who holds their slots, and when another worker is needed."""
