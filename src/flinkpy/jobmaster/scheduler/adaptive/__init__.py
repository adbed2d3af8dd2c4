"""The adaptive scheduler: runs a job with the slots that there are, and rescales it when they change."""
