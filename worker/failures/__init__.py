"""Failures: raw facts to a classified error, a decision, and a report. Pure."""
