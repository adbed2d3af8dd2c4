"""Connects programs to clusters: job submission, the embedded cluster, and handles for running jobs."""
