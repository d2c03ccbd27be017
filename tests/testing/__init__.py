"""The public test doubles: the bus inside a test, and the pytest plugin around it."""
