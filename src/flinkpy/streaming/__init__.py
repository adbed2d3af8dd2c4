"""The runtime of one subtask: mailbox, stream tasks, operators and their inputs and outputs."""
