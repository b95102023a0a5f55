"""One file per wire format, and the table of providers. Pure; above `normalize`."""
