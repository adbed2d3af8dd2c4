"""The sockets of the data plane: frames, connections and the I/O thread. The only socket code of the data path."""
