"""Checkpoints: where they are kept, which are complete, and how their state is handed out again.

`storage/` writes and reads files, `metadata` is the file that makes a checkpoint one, `completed_checkpoint_store`
knows which there are, `shared_state_registry` which files more than one of them needs, `savepoint_loader` and
`state_assignment` bring their state to the tasks of a job, `coordinator/` takes them.
"""
