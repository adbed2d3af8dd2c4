"""The blocking shuffle: partitions that are written to a file, finished, and then read, as often as need be."""
