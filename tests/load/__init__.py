"""What a broker must bear: many connections, strangers that mean no good, more messages than fit into memory."""
