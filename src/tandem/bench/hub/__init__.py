"""Event hubs."""
