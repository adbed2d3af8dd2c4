"""The JobMaster: runs one job.

`executiongraph`, `scheduler`, `slotpool` and `failover` are plain synchronous Python. `job_master` is the RPC shell
that feeds events to the scheduler and runs its effects. `operator_coordinators` hosts the user's operator coordinators.
"""
