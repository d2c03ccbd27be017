"""Event hubs read by Spark."""
