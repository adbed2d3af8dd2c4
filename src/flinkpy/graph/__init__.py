"""From the user's program to the JobGraph: transformations, StreamGraph, chaining, and the graph's checks.

The JobGraph itself is the protobuf message `flinkpy._proto.job_pb2.JobGraph` (see docs/decisions/0002).
"""
