"""MongoDB: collections are read in partitions, and written by bulk requests."""
