"""Programs for those who work on Tandem; no part of what is installed."""
