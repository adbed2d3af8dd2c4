"""Windows in the row lane: the state of a window is kept under its key and itself, see `panes`."""
