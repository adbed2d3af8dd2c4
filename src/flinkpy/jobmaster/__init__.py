"""One job: from JobGraph to ExecutionGraph, from slots to running tasks, from failures to restarts.

`executiongraph`, `scheduler`, `slotpool` and `failover` are plain synchronous Python; `job_master` is the RPC shell
that feeds them events and runs their effects; `coordination` hosts the user's operator coordinators.
"""
