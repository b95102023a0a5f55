"""One file per wire format, and the table of providers. Pure; above `normalize`."""

from worker.providers.streams import normalizer_for as normalizer_for
