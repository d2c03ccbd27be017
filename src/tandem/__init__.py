"""Tandem: a self-hosted service bus, and the AMQP 1.0 library it stands on."""

from __future__ import annotations

from typing import Final

from tandem._form import form, install_source_only_finder, is_pure_requested

__all__ = ["__version__", "form"]

__version__: Final = "0.1.0"

# Here and nowhere else: every import of a module of Tandem runs this file first.
if is_pure_requested():
    install_source_only_finder()
