"""Codec rates, and a relay in memory."""
