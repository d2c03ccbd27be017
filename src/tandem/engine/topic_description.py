"""Descriptions of topics."""

from __future__ import annotations

from tandem.engine.description import QueueDescription, take_names, take_rules
from tandem.entity_settings import TOPIC

__all__ = ["TopicDescription"]


class TopicDescription(QueueDescription):
    """The chosen settings of one topic. It has none of those that only receivers need: nobody receives from it."""

    __slots__ = ()

    @property
    def kind(self) -> str:
        return TOPIC

    @property
    def judges_properties(self) -> bool:
        """Rules look at them: a message whose properties are not valid AMQP is refused to its sender."""
        return True

    @staticmethod
    def from_fields(fields: dict[str, object]) -> TopicDescription:
        """Return the description of these plain values. ArgumentError names the field that is wrong."""
        settings = dict(fields)
        (name,) = take_names(TOPIC, settings)
        return TopicDescription(name, take_rules(name, settings), **settings)
