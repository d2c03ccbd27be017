"""Tandem against AMQP 1.0 stacks that nobody here wrote."""
