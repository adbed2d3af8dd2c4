"""What has happened to a batch job, on disk, and how the job's next JobMaster goes on from there."""
