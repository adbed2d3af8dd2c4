"""Checkpoints: taking, storing and restoring them.

`coordinator/` takes checkpoints. `storage/` writes and reads their files. `metadata` is the file that completes a
checkpoint. `completed_checkpoint_store` keeps the list of complete checkpoints, and `shared_state_registry` the list of
files that several of them use. `savepoint_loader` and `state_assignment` bring their state to the tasks of a job.
"""
