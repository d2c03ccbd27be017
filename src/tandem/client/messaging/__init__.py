"""Messages, and what sends and receives them."""
