"""The blocking shuffle: partitions that are written to a file, finished, and then read any number of times."""
