"""Failed authentications by address: the more of them, the later each is answered.

A guess costs its answer, so it is the answer that is delayed: to open another connection gains nothing. A valid token
or key is verified and answered at once, whatever its address has failed with before.
"""

from __future__ import annotations

import ipaddress
from collections import OrderedDict
from collections.abc import Callable

from tandem.driver.turns import Allowance
from tandem.limits import (
    FAILED_AUTHENTICATIONS_PER_SECOND,
    FREE_FAILED_AUTHENTICATIONS,
    FREE_LOOPBACK_FAILED_AUTHENTICATIONS,
    LOOPBACK_FAILED_AUTHENTICATIONS_PER_SECOND,
    MAX_FAILED_AUTHENTICATION_DELAY_MS,
    MAX_WATCHED_ADDRESSES,
)

__all__ = ["FailedAuthentications"]


class FailedAuthentications:
    """A table of the addresses that failed last, of bounded size."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._by_address: OrderedDict[str, Allowance] = OrderedDict()

    def __len__(self) -> int:
        return len(self._by_address)

    def note(self, address: str) -> float:
        """Count one more failure. Return in how many seconds it is to be answered."""
        now_s = self._now_s()
        key = _watched_as(address)
        allowance = self._by_address.pop(key, None)
        if allowance is None:
            allowance = _fresh(key, now_s)
            if len(self._by_address) >= MAX_WATCHED_ADDRESSES:
                self._by_address.popitem(last=False)
        self._by_address[key] = allowance
        allowance.spend(1, now_s)
        return min(allowance.wait_s(), MAX_FAILED_AUTHENTICATION_DELAY_MS / 1000)


def _fresh(key: str, now_s: float) -> Allowance:
    if key == _LOOPBACK:
        return Allowance(FREE_LOOPBACK_FAILED_AUTHENTICATIONS, LOOPBACK_FAILED_AUTHENTICATIONS_PER_SECOND, now_s)
    return Allowance(FREE_FAILED_AUTHENTICATIONS, FAILED_AUTHENTICATIONS_PER_SECOND, now_s)


_LOOPBACK = "loopback"


def _watched_as(address: str) -> str:
    """Who has one address of IPv6 has 2^64 of them: what counts is the network. All loopback addresses are one."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if parsed.is_loopback:
        return _LOOPBACK
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped is not None:
            return _watched_as(str(parsed.ipv4_mapped))
        return str(ipaddress.IPv6Network((parsed, 64), strict=False).network_address)
    return str(parsed)
