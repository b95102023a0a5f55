"""The operators' pages, rendered on the server."""
