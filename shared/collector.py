"""The garbage collector of a process that stays.

Comes in: nothing. Goes out: a collector that looks at what came after the start. Gateway and
worker call it once, when everything is imported.
"""

import gc


def set_apart() -> None:
    """Keeps what stands at the start out of the collector's sight: it stays to the end.

    A full collection otherwise walks over every module, 70 ms in which a worker's streams stand
    still; and it comes late, only when a quarter as much is to be looked at: ten MiB of events,
    where thousands of guilds come into sight at once.
    """
    gc.collect()
    gc.freeze()
