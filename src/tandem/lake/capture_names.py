"""Names of what a capture keeps beside its files. Readers of tables pass over names with an underscore."""

from __future__ import annotations

from typing import Final

__all__ = ["BATCHES", "COLUMNS_NOTE", "INTENTS", "OWN_FOLDER", "QUARANTINE", "SNAPSHOTS", "STAGING"]

OWN_FOLDER: Final = "_tandem"
# Files of tasks on local disks, which have no names yet.
STAGING: Final = f"{OWN_FOLDER}/staging"
# What is about to be committed, and manifests of what is: by query and batch.
INTENTS: Final = f"{OWN_FOLDER}/intents"
BATCHES: Final = f"{OWN_FOLDER}/batches"
# Lists of all files, each in place of the manifests before it.
SNAPSHOTS: Final = f"{OWN_FOLDER}/snapshots"
# The columns that payloads have been parsed into so far.
COLUMNS_NOTE: Final = f"{OWN_FOLDER}/columns.json"

# A table of its own: events whose payloads did not fit.
QUARANTINE: Final = "_quarantine"
