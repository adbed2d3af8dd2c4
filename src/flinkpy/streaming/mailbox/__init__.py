"""The mailbox, through which all other threads communicate with a task thread."""
