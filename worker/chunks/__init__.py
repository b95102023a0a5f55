"""Canonical events to `ProcessedChunk` (seed 000). Pure; above `failures` and `text`."""
