"""What people and models said does not stand in a `repr`.

Comes in: a struct. Goes out: its name and the sizes of its texts. A prompt, reasoning or a call's
arguments that land in a traceback or a log by accident then tell how much there was, and nothing
of it. Pure; the modules whose structs hold such text use it: `__repr__ = told_by_size`.
"""

import msgspec


def told_by_size(value: object) -> str:
    """A struct's `repr`: texts and containers by their size, numbers and words of enums as is.

    Raises:
        TypeError: it is no struct.
    """
    names = getattr(value, "__struct_fields__", None)
    if names is None:
        raise TypeError("only structs are told by size")
    told = ", ".join(f"{name}={_told(getattr(value, name))}" for name in names)
    return f"{type(value).__name__}({told})"


def _told(value: object) -> str:
    """A field: a plain string is content; one of an enum is a word of ours."""
    if type(value) is str:
        return f"<{len(value)} chars>"
    if isinstance(value, bytes | msgspec.Raw):
        return f"<{len(bytes(value))} bytes>"
    if isinstance(value, dict):
        return f"<{len(value)} entries>"
    if isinstance(value, list | tuple):
        return f"[{', '.join(_told(item) for item in value)}]"
    return repr(value)
