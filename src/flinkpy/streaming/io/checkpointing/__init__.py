"""Checkpoint barriers on the way in: when a task's inputs have given theirs, and what is blocked or kept until then."""
