"""The one incremental scanner of code spans, fences, tags and markers. Pure."""
