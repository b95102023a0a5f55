"""Visible text to segments for Discord (seed 001). Pure; above `text`."""
