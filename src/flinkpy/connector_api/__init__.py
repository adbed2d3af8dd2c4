"""The interfaces between connectors and the runtime: sources, sinks and operator coordinators.

Connectors implement them; stream tasks and the JobMaster call them. They are public, beyond PyFlink, whose Source and
Sink only wrap Java objects: `from_source` and `sink_to` accept any `SourceBase` and `SinkBase`.
"""
