"""Handles the checkpoint barriers on the inputs of a task: aligns them, blocks channels and captures in-flight data."""
