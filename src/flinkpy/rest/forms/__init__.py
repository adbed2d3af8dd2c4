"""Functions that turn what the cluster tells into the bodies of answers. Pure: the time is an argument."""
