"""The sockets of the data plane: frames, connections and the I/O thread.

No other package of the data path uses sockets.
"""
