"""Connections, links, tokens and retries: what senders, receivers and managers share."""
