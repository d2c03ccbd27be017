"""Trying again while a broker cannot be reached, for as long as a query is willing to wait.

Spark fails a query at the first exception of a source. A broker that restarts, or a namespace that fails over, is away
for seconds: so the source waits, and the query notices nothing but time.
"""

from __future__ import annotations

import http.client
import random
import ssl
import time
from collections.abc import Callable
from typing import Final, TypeVar

from tandem import errors
from tandem.client.errors import CertificateNotTrustedError, MessagingError, reaching_error
from tandem.errors import RemoteError, TandemError

__all__ = ["Retrying", "ServiceUnreachable", "is_worth_another_try"]

# Seconds. The first pause, and the longest one: each is about twice as long as the one before.
_FIRST_PAUSE_S: Final = 0.1
_LONGEST_PAUSE_S: Final = 5.0

# What a broker says of itself when it will be well again.
_TRANSIENT_CONDITIONS: Final = frozenset(
    {
        errors.ServerBusy.condition,
        errors.OperationTimeout.condition,
        errors.ConnectionForced.condition,
        errors.DetachForced.condition,
        "amqp:internal-error",
    }
)

Result = TypeVar("Result")


class ServiceUnreachable(TandemError):
    """The service did not answer in the time that the query was willing to wait. The message has the last reason."""


def is_worth_another_try(error: Exception) -> bool:
    """Whether the same request may succeed later."""
    if isinstance(error, RemoteError):
        return error.condition in _TRANSIENT_CONDITIONS or error.condition.startswith("http:5")
    if isinstance(error, MessagingError):
        return error.is_transient
    if isinstance(error, ssl.SSLCertVerificationError):
        return False
    # Sockets that were closed, answers that were cut short. pyarrow's own errors about streams are OSErrors too.
    return isinstance(error, OSError | http.client.HTTPException | EOFError)


class Retrying:
    """The attempts of one operation. Progress begins the time anew: a long read may survive many interruptions."""

    def __init__(
        self,
        what: str,
        where: str,
        timeout_s: float,
        *,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._what = what
        self._where = where
        self._timeout_s = timeout_s
        self._now = now
        self._sleep = sleep
        self._deadline_s = now() + timeout_s
        self._pause_s = _FIRST_PAUSE_S

    def progressed(self) -> None:
        self._deadline_s = self._now() + self._timeout_s
        self._pause_s = _FIRST_PAUSE_S

    def pause(self, error: Exception) -> None:
        """Wait before the next attempt; raise the error if it is final, or if the time is over."""
        if isinstance(error, ssl.SSLCertVerificationError):
            raise _not_trusted(self._where, error) from error
        if not is_worth_another_try(error):
            raise error
        if self._now() + self._pause_s > self._deadline_s:
            raise ServiceUnreachable(
                f"{self._what} was tried for {self._timeout_s:g} s without success; the last reason: "
                f"{self._reason(error)}. Start the broker, correct the address, or raise operationTimeout"
            ) from error
        # Tasks that failed together must not come back together.
        self._sleep(self._pause_s * random.uniform(0.5, 1.0))  # noqa: S311 - nothing depends on its being secret
        self._pause_s = min(_LONGEST_PAUSE_S, self._pause_s * 2)

    def _reason(self, error: Exception) -> str:
        if isinstance(error, OSError):
            return reaching_error(self._where, error).description
        return str(error) or type(error).__name__

    def perform(self, attempt: Callable[[], Result]) -> Result:
        """The result of the first attempt that succeeds."""
        while True:
            try:
                return attempt()
            except Exception as error:
                # It judges the error, and raises what is final.
                self.pause(error)


def _not_trusted(where: str, error: ssl.SSLCertVerificationError) -> CertificateNotTrustedError:
    return CertificateNotTrustedError(
        f"the certificate of {where} is not trusted: {error.verify_message or error}. Set SSL_CERT_FILE to the "
        "certificate of its issuer, such as DATA_DIR/tls/ca.pem of the broker, for the driver and, as "
        "spark.executorEnv.SSL_CERT_FILE, for the executors; or correct the address"
    )
