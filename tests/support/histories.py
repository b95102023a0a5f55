"""Random conversations: every block, every maker, ids that clash, results that are out of place."""

from hypothesis import strategies as st

from shared.messages import (
    ContentBlock,
    ImageBlock,
    Message,
    OpaqueBlock,
    Role,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)

MAKERS = [
    ("anthropic", "claude-a"),
    ("openai", "gpt-x"),
    ("openai-responses", "gpt-x"),
    ("google", "gemini-x"),
    ("deepseek", "deepseek-chat"),
    ("mistral", "mistral-large"),
    (None, None),
]
TARGETS = [
    ("anthropic", "claude-a"),
    ("openai", "gpt-x"),
    ("openai-responses", "gpt-x"),
    ("google", "gemini-x"),
    ("mistral", "mistral-large"),
    ("my-box", "local"),
]
PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5Erk"
    "Jggg=="
)
"""One white pixel as PNG."""

_texts = st.sampled_from(["Hello.", "a b", " ", "", "\n\n", "x\ud83d", "\0", "Grüezi 😀", "word"])
_ids = st.sampled_from(
    ["c1", "c2", "call_0", "a|1", "a|2", "", "x" * 70, "tool.1", "ABCdef123", "é", "id with space"]
)
_names = st.sampled_from(["roll", "look_up"])
_signatures = st.sampled_from([None, "U0lHTkVE", "RU5D"])
_arguments: st.SearchStrategy[object] = st.sampled_from(
    [{}, {"n": 6}, {"q": "\udc00"}, "oops", ["a"], 7, {"deep": {"er": [1, {"k\0": None}]}}]
)
_images = st.just(ImageBlock(mime_type="image/png", data=PIXEL))
_text_blocks = st.builds(
    TextBlock,
    text=_texts,
    text_signature=_signatures,
    item_id=st.sampled_from([None, "msg_1"]),
    phase=st.sampled_from([None, "final_answer"]),
)
_assistant_blocks: st.SearchStrategy[ContentBlock] = st.one_of(
    _text_blocks,
    st.builds(
        ThinkingBlock, thinking=_texts, thinking_signature=_signatures, redacted=st.booleans()
    ),
    st.builds(
        ToolCallBlock,
        id=_ids,
        name=_names,
        arguments=_arguments,
        arguments_truncated=st.booleans(),
        thought_signature=_signatures,
        item_id=st.sampled_from([None, "fc_1"]),
    ),
    st.sampled_from(
        [
            OpaqueBlock(
                provider="anthropic",
                raw={
                    "type": "server_tool_use",
                    "id": "srvtoolu_1",
                    "name": "web_search",
                    "input": {"query": "x"},
                },
            ),
            OpaqueBlock(
                provider="openai",
                raw={"type": "web_search_call", "id": "ws_1", "status": "completed"},
            ),
            OpaqueBlock(
                provider="google",
                raw={"executableCode": {"language": "PYTHON", "code": "1 + 1"}},
            ),
        ]
    ),
)


@st.composite
def _assistant(draw: st.DrawFn) -> Message:
    provider, model = draw(st.sampled_from(MAKERS))
    return Message(
        role=Role.ASSISTANT,
        content=draw(st.lists(_assistant_blocks, max_size=5)),
        provider=provider,
        model=model,
        stop_reason=draw(st.sampled_from([None, "stop", "tool_use", "length", "error", "aborted"])),
    )


_users = st.builds(
    Message,
    role=st.just(Role.USER),
    content=st.one_of(_texts, st.lists(st.one_of(_text_blocks, _images), max_size=4)),
)
_system = st.builds(Message, role=st.sampled_from([Role.SYSTEM, Role.DEVELOPER]), content=_texts)
_results = st.builds(
    Message,
    role=st.just(Role.TOOL),
    content=st.lists(st.one_of(_text_blocks, _images), max_size=3),
    tool_call_id=_ids,
    tool_name=st.one_of(st.none(), _names),
    is_error=st.sampled_from([None, True, False]),
    synthetic=st.sampled_from([None, None, None, True]),
)
histories = st.lists(st.one_of(_users, _assistant(), _results, _results, _system), max_size=12)
"""Histories of which next to nothing is promised."""
targets = st.sampled_from(TARGETS)
