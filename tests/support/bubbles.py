"""Notices as Discord shows them, as a page that somebody can look at.

Comes in: texts and buttons. Goes out: HTML. It knows as much of Discord's markup as notices use:
small print, lists, code, bold, quotes and blocks.
"""

import html
import re
from collections.abc import Iterable, Mapping

STYLE = """
body { background: #313338; color: #dbdee1; margin: 16px; width: 640px;
       font: 15px/1.35 'Noto Sans', 'Noto Sans CJK JP', sans-serif; }
h2 { color: #949ba4; font-size: 13px; margin: 18px 0 4px; }
.bubble { margin: 0 0 6px; } .small { color: #949ba4; font-size: 12px; }
.item::before { content: '\\2022'; margin: 0 8px 0 4px; }
code { background: #1e1f22; padding: 0 3px; border-radius: 3px; font-size: 13px; }
pre { background: #1e1f22; padding: 8px; border-radius: 4px; white-space: pre-wrap; margin: 4px 0; }
blockquote { border-left: 4px solid #4e5058; padding-left: 10px; margin: 0; }
button { background: #4e5058; color: #fff; border: 0; border-radius: 3px; padding: 6px 14px;
         margin: 4px 6px 2px 0; font: inherit; font-size: 13px; }
"""


FONTS = {"ja": "Noto Sans CJK JP", "zh-CN": "Noto Sans CJK SC"}
"""A Chinese text in a Japanese font has other signs than people in China see."""


def page(groups: Mapping[str, Iterable[tuple[str, Iterable[str]]]], locale: str = "en") -> str:
    """A page of groups of messages, each a text with the labels of its buttons."""
    parts = []
    for title, messages in groups.items():
        parts.append(f"<h2>{html.escape(title)}</h2>")
        parts += [_bubble(text, labels) for text, labels in messages]
    style = STYLE.replace("Noto Sans CJK JP", FONTS.get(locale, "Noto Sans CJK JP"))
    body = f"<body>{''.join(parts)}</body>"
    return f"<html lang='{locale}'><head><style>{style}</style></head>{body}</html>"


def _bubble(text: str, labels: Iterable[str]) -> str:
    blocks = re.split(r"```\n?(.*?)\n?```", text, flags=re.DOTALL)
    shown = "".join(
        f"<pre>{html.escape(part)}</pre>" if at % 2 else "".join(map(_line, part.splitlines()))
        for at, part in enumerate(blocks)
    )
    buttons = "".join(f"<button>{html.escape(label)}</button>" for label in labels)
    return f"<div class=bubble>{shown}{f'<div>{buttons}</div>' if buttons else ''}</div>"


def _line(line: str) -> str:
    for mark, kind in (("-# ", "small"), ("- ", "item")):
        if line.startswith(mark):
            return f"<div class={kind}>{_inline(line.removeprefix(mark))}</div>"
    if line.startswith("> "):
        return f"<blockquote>{_inline(line.removeprefix('> '))}</blockquote>"
    return f"<div>{_inline(line)}</div>"


def _inline(text: str) -> str:
    shown = html.escape(text)
    shown = re.sub(r"`([^`]+)`", r"<code>\1</code>", shown)
    return re.sub(r"\*\*([^*]+)\*\*", r"<b>\1</b>", shown)
