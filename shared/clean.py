"""Text that every store and every JSON reader takes.

Comes in: any string, from a provider or an exception. Goes out: the same text without the code
points that a store refuses. Pure; anyone may import it.
"""

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def storable(text: str) -> str:
    """The text with NUL and lone surrogates replaced; halves of a pair are joined.

    PostgreSQL refuses U+0000 in text and jsonb, SQLite's `length()` stops there, and a lone
    surrogate cannot be encoded by any driver: one of them would cost the whole batch
    (ansible/awx#13368).
    """
    if text.isascii():
        return text.replace("\0", REPLACEMENT) if "\0" in text else text
    joined = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return joined.replace("\0", REPLACEMENT)
