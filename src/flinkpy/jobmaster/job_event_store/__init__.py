"""The recorded events of a batch job, and the recovery of the job by its next JobMaster."""
