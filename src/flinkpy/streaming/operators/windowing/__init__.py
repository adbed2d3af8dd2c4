"""Windows in the row lane. The state of a window is kept per key and window, see `pane_state`."""
