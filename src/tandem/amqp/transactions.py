"""Declare and discharge (AMQP 1.0 part 4.5.2 and 4.5.3): the messages sent to a coordinator."""

from __future__ import annotations

from typing import Final

from tandem.amqp.delivery_states import type_code
from tandem.amqp.encode import encode
from tandem.amqp.fields import Fields
from tandem.amqp.message import Message
from tandem.amqp.types import Described, ULong
from tandem.errors import DecodeError

__all__ = ["Declare", "Discharge", "decode_transaction_request"]

AMQP_VALUE: Final = 0x77
DECLARE: Final = 0x31
DISCHARGE: Final = 0x32

_BY_SYMBOL: Final[dict[str, int]] = {"amqp:declare:list": DECLARE, "amqp:discharge:list": DISCHARGE}


class Declare:
    """Begin a transaction; the coordinator answers with `Declared(txn_id)`."""

    __slots__ = ("global_id",)

    def __init__(self, global_id: object = None) -> None:
        self.global_id = global_id

    def encode(self) -> bytes:
        return encode(Described(ULong(AMQP_VALUE), Described(ULong(DECLARE), [self.global_id])))

    def __repr__(self) -> str:
        return f"Declare({self.global_id!r})"


class Discharge:
    """End a transaction: commit it, or with `fail` roll it back."""

    __slots__ = ("fail", "txn_id")

    def __init__(self, txn_id: bytes, fail: bool = False) -> None:
        self.txn_id = txn_id
        self.fail = fail

    def encode(self) -> bytes:
        return encode(Described(ULong(AMQP_VALUE), Described(ULong(DISCHARGE), [self.txn_id, self.fail])))

    def __repr__(self) -> str:
        return f"Discharge({self.txn_id!r}, fail={self.fail})"


def decode_transaction_request(payload: bytes) -> Declare | Discharge:
    """What a message sent to a coordinator asks for."""
    value = Message(payload).value
    if not isinstance(value, Described) or not isinstance(value.value, list):
        raise DecodeError(f"a coordinator takes declare and discharge, got {value!r:.80}")
    code = type_code(value.descriptor, _BY_SYMBOL)
    if code == DECLARE:
        return Declare(Fields("declare", ("global-id",), value.value).any(0))
    if code == DISCHARGE:
        fields = Fields("discharge", ("txn-id", "fail"), value.value)
        return Discharge(fields.required(0, fields.binary(0)), fields.boolean(1, False))
    raise DecodeError(f"a coordinator takes declare and discharge, got {value!r:.80}")
