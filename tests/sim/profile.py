"""What kind of traffic a seed makes: some runs have many sessions, some large messages, some hardly any crashes."""

from __future__ import annotations

from random import Random

__all__ = ["Profile"]


class Profile:
    """The shares and sizes of one run, drawn from its seed."""

    def __init__(self, random: Random) -> None:
        draw = random.random
        self.queue_count = 2 + int(draw() * 6)
        self.connection_count = 1 + int(draw() * 4)
        self.session_count = (2, 5, 20)[int(draw() * 3)]
        self.session_share = (0.0, 0.3, 0.3, 0.8)[int(draw() * 4)]
        self.group_share = (0.0, 0.1)[int(draw() * 2)]
        self.expiring_share = (0.0, 0.1, 0.5)[int(draw() * 3)]
        self.scheduled_share = (0.0, 0.05, 0.3)[int(draw() * 3)]
        self.forwarding_share = (0.0, 0.2, 0.6)[int(draw() * 3)]
        self.deleting_share = (0.0, 0.2, 0.6)[int(draw() * 3)]
        self.small_share = (0.0, 0.1)[int(draw() * 2)]
        # A head of messages is bounded in bytes too: with large messages few of them fill it.
        self.large_share = (0.0, 0.0, 0.0, 0.2)[int(draw() * 4)]
        self.large_bytes = 150_000
        self.batch_size = (2, 10)[int(draw() * 2)]
        self.credit = (2, 10, 50)[int(draw() * 3)]
        self.completing_share = (0.2, 0.6)[int(draw() * 2)]
        self.crash_share = (0.0, 0.000_5, 0.003)[int(draw() * 3)]
        self.slow_disk_share = (0.0, 0.1)[int(draw() * 2)]
        # How often an answer of the loop waits until more commands have come.
        self.patience = (0.2, 0.5, 0.9)[int(draw() * 3)]
        # How often what is due comes after the commands of the same moment.
        self.lateness = (0.05, 0.5, 0.8)[int(draw() * 3)]
        # Some runs have no topics, and are about queues only.
        self.topic_count = (0, 1, 1, 2)[int(draw() * 4)]
        self.subscription_count = 1 + int(draw() * 5)
        self.publishing_share = (0.2, 0.5, 0.8)[int(draw() * 3)]
        self.hurry = (0.0, 0.02, 0.1)[int(draw() * 3)]
