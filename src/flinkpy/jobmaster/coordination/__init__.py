"""Operator coordinators: user code that runs in the JobMaster."""
