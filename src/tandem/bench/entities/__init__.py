"""Queues and topics."""
