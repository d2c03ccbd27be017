"""The client library beside the official SDK."""
