"""What the room changes in a text, one row for each change, with its inverse.

Comes in: bodies. Goes out: bodies as Discord must get them. Completeness is stated up to these
rows: the tests undo them and compare with what the model wrote. Pure; used by the segment room,
by `ops.replay`, and by tests.
"""

from worker.text.graphemes import fitting_length, last_boundary

FENCE = "```"

ZERO_WIDTH = "\u200b"
"""Breaks a run of marks that Discord would read, without being seen."""

QUOTE_MARK = "> "
"""In front of every line of a quote."""

FILE_SUFFIXES = {
    "": "txt",
    "bash": "sh",
    "c#": "cs",
    "c++": "cpp",
    "csharp": "cs",
    "javascript": "js",
    "markdown": "md",
    "python": "py",
    "ruby": "rb",
    "rust": "rs",
    "shell": "sh",
    "text": "txt",
    "typescript": "ts",
    "yaml": "yml",
}
"""Info strings whose usual file suffix is another word; all others are their own suffix."""


def fenced(body: str, info: str, spoiler: str = "", quote: str = "") -> str:
    """A code block of its own: fence, info string, and what stands around it.

    Args:
        body: the code; in a quote every line has its mark, but for the first after a cut.
        info: the info string.
        spoiler: marks of a spoiler around the block.
        quote: the mark of a quote in front of each line.
    """
    code = body.removesuffix("\n")
    if not code.startswith(quote):
        code = quote + code
    return f"{quote}{spoiler}{FENCE}{info}\n{code}\n{quote}{FENCE}{spoiler}"


def file_name(info: str) -> str:
    """The name of a file of code in the language `info`."""
    word = info.lower()
    suffix = FILE_SUFFIXES.get(word, word)
    return f"code.{suffix}" if suffix.isalnum() else "code.txt"


def split_code(body: str, info: str, spoiler: str, limit: int) -> tuple[str, ...]:
    """The same code as messages: cut at line ends, an over-long line between characters."""
    messages = []
    while body.strip():
        size = fitting_length(body, limit)
        cut = len(body)
        if size < cut:
            cut = body.rfind("\n", 0, size) + 1
            if not cut or not body[:cut].strip():
                cut = last_boundary(body, size)
        messages.append(fenced(body[:cut], info, spoiler))
        body = body[cut:]
    return tuple(messages)
