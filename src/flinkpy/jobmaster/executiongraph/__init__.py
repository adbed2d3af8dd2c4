"""The ExecutionGraph: the parallel version of a JobGraph and the state of all its execution attempts."""
