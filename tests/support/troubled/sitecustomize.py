"""A process with troubles of its own: on the PYTHONPATH of the workers that shall have them.

`TROUBLE_SKEW_S` sets the clock wrong, ahead in processes of an odd pid and behind in the others.
SIGUSR2 blocks the event loop for `TROUBLE_BLOCK_S`.
"""

import os
import signal
import time

_SKEW_S = float(os.environ.get("TROUBLE_SKEW_S", "0")) * (1 if os.getpid() % 2 else -1)
_BLOCK_S = float(os.environ.get("TROUBLE_BLOCK_S", "12"))
_time, _time_ns = time.time, time.time_ns

if _SKEW_S:
    time.time = lambda: _time() + _SKEW_S
    time.time_ns = lambda: _time_ns() + int(_SKEW_S * 1e9)

signal.signal(signal.SIGUSR2, lambda *_: time.sleep(_BLOCK_S))
