"""Input of a connection that came and was not handled yet."""

from __future__ import annotations

from typing import Final

__all__ = ["HEADER_BYTES", "UnreadInput"]

# A protocol header and the header of a frame are equally long.
HEADER_BYTES: Final = 8


class UnreadInput:
    """The beginning of a frame; or everything from a frame on at which the work of a call was used up."""

    __slots__ = ("fragment", "left", "left_at", "wanted_bytes")

    def __init__(self) -> None:
        # One buffer and no list of pieces, which for a peer that writes byte by byte would weigh twenty times more.
        self.fragment = bytearray()
        # How long it has to be to go on.
        self.wanted_bytes = HEADER_BYTES
        # As it came, and where it goes on: to copy the rest for each call would cost the square of its length.
        self.left = b""
        self.left_at = 0

    def join(self, data: bytes) -> bytes | None:
        """Return the input to parse, from `left_at` on, or None while there is not enough of it."""
        if self.left:
            if data:
                data = self.left[self.left_at :] + data
                self.left_at = 0
            else:
                data = self.left
            self.left = b""
        elif self.fragment:
            if len(self.fragment) + len(data) < self.wanted_bytes:
                self.fragment += data
                return None
            data = bytes(self.fragment) + data
            self.fragment.clear()
        return data

    def keep(self, data: bytes, offset: int, has_more: bool) -> None:
        """Keep what was not handled. With `has_more` there are whole frames in it."""
        self.left_at = 0
        if has_more:
            self.left = data
            self.left_at = offset
        elif offset < len(data):
            self.fragment += data[offset:]

    def clear(self) -> None:
        self.fragment.clear()
        self.left = b""
