"""The parallel version of a JobGraph and the state of each of its attempts."""
