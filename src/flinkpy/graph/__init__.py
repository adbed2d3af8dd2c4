"""Builds the JobGraph of a user's program: transformations, StreamGraph, chaining and validation.

The JobGraph itself is the protobuf message `flinkpy._proto.job_pb2.JobGraph` (see docs/decisions/0002).
"""
