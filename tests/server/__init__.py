"""The parts of the server, on real sockets."""
