"""The contracts between connectors and the runtime: sources, sinks and operator coordinators.

A connector implements these; the streaming tasks and the JobMaster call them. Public, beyond PyFlink (whose Source
and Sink only wrap Java objects): a Python class that implements `Source` or `Sink` can be given to `from_source` /
`sink_to`.
"""
