"""Sources, targets and the coordinator (AMQP 1.0 parts 3.5 and 4.5.1): the two ends of a link."""

from __future__ import annotations

from typing import Final

from tandem.amqp.delivery_states import DeliveryState, delivery_state, type_code
from tandem.amqp.fields import Fields, show, symbols
from tandem.amqp.types import Described, Symbol, UInt, ULong
from tandem.errors import DecodeError

__all__ = ["COPY", "MOVE", "Coordinator", "Source", "Target", "Terminus", "source_of", "target_of"]

SOURCE: Final = 0x28
TARGET: Final = 0x29
COORDINATOR: Final = 0x30

# Distribution modes of a source (part 3.5.7): whether a message that one receiver gets is there for others.
MOVE: Final = "move"
COPY: Final = "copy"

_BY_SYMBOL: Final[dict[str, int]] = {
    "amqp:source:list": SOURCE,
    "amqp:target:list": TARGET,
    "amqp:coordinator:list": COORDINATOR,
}

_TERMINUS_FIELDS: Final = ("address", "durable", "expiry-policy", "timeout", "dynamic", "dynamic-node-properties")
_SOURCE_FIELDS: Final = (
    *_TERMINUS_FIELDS,
    *("distribution-mode", "filter", "default-outcome", "outcomes", "capabilities"),
)
_TARGET_FIELDS: Final = (*_TERMINUS_FIELDS, "capabilities")
_COORDINATOR_FIELDS: Final = ("capabilities",)


class Terminus:
    """What sources and targets have in common. The address is kept as the very value received, to be echoed."""

    __slots__ = (
        "address",
        "capabilities",
        "durable",
        "dynamic",
        "dynamic_node_properties",
        "expiry_policy",
        "timeout_s",
    )

    def __init__(
        self,
        address: object = None,
        durable: int = 0,
        expiry_policy: str = "session-end",
        timeout_s: int = 0,
        dynamic: bool = False,
        dynamic_node_properties: dict[object, object] | None = None,
        capabilities: list[Symbol] | None = None,
    ) -> None:
        self.address = address
        self.durable = durable
        self.expiry_policy = expiry_policy
        self.timeout_s = timeout_s
        self.dynamic = dynamic
        self.dynamic_node_properties = dynamic_node_properties
        self.capabilities = capabilities

    def terminus_values(self) -> list[object]:
        return [
            self.address,
            UInt(self.durable),
            Symbol(self.expiry_policy),
            UInt(self.timeout_s),
            self.dynamic,
            self.dynamic_node_properties,
        ]

    def read_terminus(self, fields: Fields) -> None:
        self.address = fields.any(0)
        self.durable = fields.uint(1) or 0
        self.expiry_policy = fields.symbol(2) or "session-end"
        self.timeout_s = fields.uint(3) or 0
        self.dynamic = fields.boolean(4, False)
        self.dynamic_node_properties = fields.mapping(5)


class Source(Terminus):
    """Where messages come from."""

    __slots__ = ("default_outcome", "distribution_mode", "filter", "outcomes")

    def __init__(
        self,
        address: object = None,
        *,
        durable: int = 0,
        expiry_policy: str = "session-end",
        timeout_s: int = 0,
        dynamic: bool = False,
        dynamic_node_properties: dict[object, object] | None = None,
        distribution_mode: str | None = None,
        filter: dict[object, object] | None = None,
        default_outcome: DeliveryState | None = None,
        outcomes: list[Symbol] | None = None,
        capabilities: list[Symbol] | None = None,
    ) -> None:
        super().__init__(address, durable, expiry_policy, timeout_s, dynamic, dynamic_node_properties, capabilities)
        self.distribution_mode = distribution_mode
        self.filter = filter
        self.default_outcome = default_outcome
        self.outcomes = outcomes

    def values(self) -> list[object]:
        rest: list[object] = [
            None if self.distribution_mode is None else Symbol(self.distribution_mode),
            self.filter,
            None if self.default_outcome is None else self.default_outcome.to_described(),
            symbols(self.outcomes),
            symbols(self.capabilities),
        ]
        return self.terminus_values() + rest

    def to_described(self) -> Described:
        return Described(ULong(SOURCE), self.values())

    def __repr__(self) -> str:
        return show("Source", _SOURCE_FIELDS, self.values())


class Target(Terminus):
    """Where messages go."""

    __slots__ = ()

    def values(self) -> list[object]:
        return [*self.terminus_values(), symbols(self.capabilities)]

    def to_described(self) -> Described:
        return Described(ULong(TARGET), self.values())

    def __repr__(self) -> str:
        return show("Target", _TARGET_FIELDS, self.values())


class Coordinator:
    """The target of a link that declares and discharges transactions."""

    __slots__ = ("capabilities",)

    def __init__(self, capabilities: list[Symbol] | None = None) -> None:
        self.capabilities = capabilities

    def to_described(self) -> Described:
        return Described(ULong(COORDINATOR), [symbols(self.capabilities)])

    def __repr__(self) -> str:
        return show("Coordinator", ("capabilities",), [symbols(self.capabilities)])


def _described(value: object, what: str) -> tuple[int, list[object]]:
    if not isinstance(value, Described) or not isinstance(value.value, list):
        raise DecodeError(f"attach.{what} must be a described list, got {value!r:.80}")
    return type_code(value.descriptor, _BY_SYMBOL), value.value


def source_of(value: object) -> Source | None:
    """The source in a decoded value; None stays None."""
    if value is None:
        return None
    code, values = _described(value, "source")
    if code != SOURCE:
        raise DecodeError(f"attach.source is of an unknown type: {value!r:.80}")
    fields = Fields("source", _SOURCE_FIELDS, values)
    source = Source()
    source.read_terminus(fields)
    source.distribution_mode = fields.symbol(6)
    source.filter = fields.mapping(7)
    source.default_outcome = delivery_state(fields.any(8), "source.default-outcome")
    source.outcomes = fields.symbols(9)
    source.capabilities = fields.symbols(10)
    return source


def target_of(value: object) -> Target | Coordinator | None:
    """The target or coordinator in a decoded value; None stays None."""
    if value is None:
        return None
    code, values = _described(value, "target")
    if code == COORDINATOR:
        return Coordinator(Fields("coordinator", _COORDINATOR_FIELDS, values).symbols(0))
    if code != TARGET:
        raise DecodeError(f"attach.target is of an unknown type: {value!r:.80}")
    fields = Fields("target", _TARGET_FIELDS, values)
    target = Target()
    target.read_terminus(fields)
    target.capabilities = fields.symbols(6)
    return target
