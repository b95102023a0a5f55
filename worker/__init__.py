"""The worker: claims turns, streams from providers, normalizes, segments, reports."""
