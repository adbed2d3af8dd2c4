"""Failover: the tasks to restart after a failure, and the restart strategies."""
