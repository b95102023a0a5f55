"""The operators' package: command line, recorder, store, triage, replay, console, rehearsal."""
