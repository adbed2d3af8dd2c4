"""The mailbox: how every other thread talks to a task thread."""
