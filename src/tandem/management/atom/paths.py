"""What the URL of a management request names.

    /$Resources/queues, /$Resources/topics      lists of the namespace
    /$namespaceinfo                             the namespace itself
    /orders, /a/b                               a queue or a topic; names hold slashes, encoded or not
    /t/subscriptions, /t/subscriptions/s        of a topic
    /t/subscriptions/s/rules, .../rules/r       of a subscription

What stands behind a topic is found from the right, and the words between in any case.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from urllib.parse import unquote

__all__ = ["Noun", "Path", "parse_path"]


class Noun(enum.Enum):
    """What can be asked for."""

    QUEUES = "Queues"
    TOPICS = "Topics"
    SUBSCRIPTIONS = "Subscriptions"
    RULES = "Rules"
    NAMESPACE = "NamespaceInfo"
    ENTITY = "Entity"
    SUBSCRIPTION = "Subscription"
    RULE = "Rule"
    NOTHING = ""


@dataclass(frozen=True)
class Path:
    """A URL taken apart. `entity` is the queue or topic; what it does not name is empty."""

    noun: Noun
    entity: str = ""
    subscription: str = ""
    rule: str = ""

    @property
    def resource(self) -> str:
        """What a claim has to cover."""
        return f"{self.entity}/Subscriptions/{self.subscription}" if self.subscription else self.entity


def parse_path(raw_path: str) -> Path:
    # Split first: an encoded slash belongs to a name.
    segments = [unquote(segment) for segment in raw_path.split("/") if segment]
    folded = [segment.lower() for segment in segments]
    if folded in (["$resources", "queues"], ["$resources", "topics"]):
        return Path(Noun.QUEUES if folded[1] == "queues" else Noun.TOPICS)
    if folded == ["$namespaceinfo"]:
        return Path(Noun.NAMESPACE)
    count = len(segments)
    if count >= 5 and folded[-2] == "rules" and folded[-4] == "subscriptions":
        return Path(Noun.RULE, "/".join(segments[:-4]), segments[-3], segments[-1])
    if count >= 4 and folded[-1] == "rules" and folded[-3] == "subscriptions":
        return Path(Noun.RULES, "/".join(segments[:-3]), segments[-2])
    if count >= 3 and folded[-2] == "subscriptions":
        return Path(Noun.SUBSCRIPTION, "/".join(segments[:-2]), segments[-1])
    if count >= 2 and folded[-1] == "subscriptions":
        return Path(Noun.SUBSCRIPTIONS, "/".join(segments[:-1]))
    if segments and not any(segment.startswith("$") for segment in segments):
        return Path(Noun.ENTITY, "/".join(segments))
    return Path(Noun.NOTHING)
