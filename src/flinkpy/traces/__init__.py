"""Traces and events: spans of what takes time in a cluster, and events of what happens at one moment.

`span` and `event` are the pure model, `trace_context` connects spans of several processes by the standard of W3C, and
`reporting` hands both to the reporters that `traces.reporters` and `events.reporters` configure. Without reporters
nothing is measured or sent.
"""
