"""What gateway, worker and operators share: values, their wire form, keys, settings.

Nothing here imports `worker`, `gateway` or `ops`. The modules that pure rooms may import (`turns`,
`messages`, `segments`, `failures`, `errors`, `wire`, `redaction`) open nothing and log nothing.
"""

__version__ = "0.1.0"
