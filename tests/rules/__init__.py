"""Tests of the language of rules."""
