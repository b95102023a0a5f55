"""Raw facts of a failure to a classified error, and what may be done about it. Pure."""
