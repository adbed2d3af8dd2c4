"""AsyncWaitOperator: functions that wait for something outside, many records at a time."""
