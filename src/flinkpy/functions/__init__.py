"""The classes that user functions are made of: functions, states, timers, windows, triggers and output tags.

Users import them from `flinkpy.datastream` and its modules, which have PyFlink's names. They live here, below both the
API and the runtime, because operators have to recognise them.
"""
