"""The task's part of a checkpoint, once its barrier is there: snapshots, their writing, the report."""
