"""The table of providers: a vendor with a known wire format is one row.

Comes in: a provider's name. Goes out: its row: format, address, the variable of its key, and its
`Quirks`. A name without a row is a custom endpoint, which speaks chat completions as most servers
do. Pure; the request builders, `normalizer_for` and the worker's composition read it.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

import msgspec

from shared.turns import Api


class ReasoningBack(StrEnum):
    """How a model takes its own reasoning back with the history."""

    NEVER = "never"
    """Not at all, or only signed in the dialect's own way."""
    CONTENT = "reasoning_content"
    """The field that DeepSeek introduced; also Z.ai, Moonshot, Qwen, llama.cpp."""
    PLAIN = "reasoning"
    """The field of gpt-oss: Groq, vLLM, Ollama, LM Studio."""
    DETAILS = "reasoning_details"
    """OpenRouter's list, unmodified and in order (openrouter.ai/docs, reasoning tokens)."""


class ThinkingStyle(StrEnum):
    """How reasoning is asked for, or switched off."""

    NONE = "none"
    EFFORT = "reasoning_effort"
    """OpenAI's word, also Groq's, xAI's, Perplexity's."""
    TYPE = "thinking"
    """`thinking: {"type": "enabled"}`: DeepSeek, Z.ai, Moonshot."""
    ENABLE = "enable_thinking"
    """A boolean: Qwen on DashScope."""
    TEMPLATE = "chat_template_kwargs"
    """`{"enable_thinking": ...}` for the model's own template: vLLM, NVIDIA, llama.cpp."""
    OPENROUTER = "reasoning"
    """`reasoning: {"effort": ...}`: OpenRouter."""


class Prefill(StrEnum):
    """How an assistant message at the end of the history is continued."""

    NONE = "none"
    """It is sent as any other message; the model answers behind it."""
    PREFIX = "prefix"
    """It carries `prefix: true`: Mistral, DeepSeek (beta)."""
    PLAIN = "plain"
    """The server continues it by itself."""


class CallSignature(StrEnum):
    """Where the signature of a tool call goes back; OpenRouter's is an entry of its list."""

    NONE = "none"
    GOOGLE = "extra_content"
    """`extra_content.google.thought_signature` (Gemini's OpenAI-compatible endpoint)."""


class Quirks(msgspec.Struct, frozen=True, kw_only=True):
    """Where a vendor departs from the format it speaks.

    Args:
        max_tokens_field: OpenAI renamed it; most others know the old name only.
        stream_options: whether `include_usage` may be asked for.
        key_header: header of the key, without it `Authorization: Bearer`.
        max_stops: how many stop strings are taken; further ones are left out.
        is_strict_template: roles must alternate after one system message at the front (templates
            of local models, Perplexity).
        bridges_results: a user message may not follow a tool result directly (Mistral; strict
            templates want the same).
        demands_reasoning: every assistant message carries the reasoning field, empty if need be
            (DeepSeek V4, hermes #15353, openclaw #73417).
        demanding_models: beginnings of model names for which a router's vendor demands it.
        sampling_with_thinking: whether temperature and top_p are taken while the model reasons.
        dummy_tool: history with calls needs `tools`, even if none is offered any more (proxies in
            front of Anthropic, LiteLLM `modify_params`).
        reads_images: whether any model here takes images; others get a note in their place.
        sends_call_ids: whether Google's calls carry ids (the Gemini API does, Vertex refuses them).
        cache_key: takes `prompt_cache_key`, which routes a conversation to its cache.
        marks_cache: prefixes of models whose cache breakpoints are set by `cache_control`.
        verbatim_tools: models here may write calls as text; the chunk room looks for them.
    """

    max_tokens_field: str = "max_tokens"
    stream_options: bool = True
    key_header: str | None = None
    max_stops: int = 4
    reasoning_back: ReasoningBack = ReasoningBack.NEVER
    demands_reasoning: bool = False
    demanding_models: tuple[str, ...] = ()
    thinking: ThinkingStyle = ThinkingStyle.NONE
    sampling_with_thinking: bool = True
    prefill: Prefill = Prefill.NONE
    call_signature: CallSignature = CallSignature.NONE
    is_strict_template: bool = False
    bridges_results: bool = False
    dummy_tool: bool = False
    reads_images: bool = True
    sends_call_ids: bool = True
    cache_key: bool = False
    marks_cache: tuple[str, ...] = ()
    verbatim_tools: bool = False


class ProviderRow(msgspec.Struct, frozen=True, kw_only=True):
    """A provider.

    Args:
        api: the format it speaks where the target leaves the choice.
        base_url: None where only the operator knows it (Azure, custom endpoints).
        key_env: variable of the deployment's own key; None where no key is needed.
        id_rule: name of the rule for tool-call ids (`worker.normalize.history`); None is that of
            the format.
        default_key: sent where no key is configured; only the rehearsal provider has one.
    """

    name: str
    api: Api = Api.OPENAI_CHAT
    base_url: str | None = None
    key_env: str | None = None
    id_rule: str | None = None
    default_key: str | None = None
    quirks: Quirks = Quirks()


_ROWS = (
    ProviderRow(
        name="anthropic",
        api=Api.ANTHROPIC,
        base_url="https://api.anthropic.com",
        key_env="ANTHROPIC_API_KEY",
    ),
    ProviderRow(
        name="openai",
        base_url="https://api.openai.com/v1",
        key_env="OPENAI_API_KEY",
        quirks=Quirks(
            max_tokens_field="max_completion_tokens",
            thinking=ThinkingStyle.EFFORT,
            cache_key=True,
        ),
    ),
    ProviderRow(
        name="google",
        api=Api.GOOGLE,
        base_url="https://generativelanguage.googleapis.com/v1",
        key_env="GEMINI_API_KEY",
    ),
    ProviderRow(
        name="vertex",
        api=Api.GOOGLE,
        base_url="https://aiplatform.googleapis.com/v1/publishers/google",
        key_env="VERTEX_API_KEY",
        quirks=Quirks(sends_call_ids=False),
    ),
    ProviderRow(
        name="gemini-compatible",
        base_url="https://generativelanguage.googleapis.com/v1beta/openai",
        key_env="GEMINI_API_KEY",
        quirks=Quirks(
            thinking=ThinkingStyle.EFFORT,
            call_signature=CallSignature.GOOGLE,
        ),
    ),
    ProviderRow(
        name="azure",
        key_env="AZURE_OPENAI_API_KEY",
        quirks=Quirks(
            max_tokens_field="max_completion_tokens",
            thinking=ThinkingStyle.EFFORT,
            key_header="api-key",
            cache_key=True,
        ),
    ),
    ProviderRow(
        name="openrouter",
        base_url="https://openrouter.ai/api/v1",
        key_env="OPENROUTER_API_KEY",
        quirks=Quirks(
            reasoning_back=ReasoningBack.DETAILS,
            thinking=ThinkingStyle.OPENROUTER,
            demanding_models=("deepseek/",),  # an empty list must be kept there (OpenRouter #487)
            # The others cache by themselves (openrouter.ai/docs, prompt caching).
            marks_cache=("anthropic/", "google/", "qwen/"),
        ),
    ),
    ProviderRow(
        name="deepseek",
        base_url="https://api.deepseek.com",
        key_env="DEEPSEEK_API_KEY",
        quirks=Quirks(
            reasoning_back=ReasoningBack.CONTENT,
            demands_reasoning=True,
            thinking=ThinkingStyle.TYPE,
            sampling_with_thinking=False,
            max_stops=16,
            reads_images=False,
        ),
    ),
    ProviderRow(
        name="groq",
        base_url="https://api.groq.com/openai/v1",
        key_env="GROQ_API_KEY",
        quirks=Quirks(
            max_tokens_field="max_completion_tokens",
            reasoning_back=ReasoningBack.PLAIN,
            thinking=ThinkingStyle.EFFORT,
        ),
    ),
    ProviderRow(
        name="mistral",
        base_url="https://api.mistral.ai/v1",
        key_env="MISTRAL_API_KEY",
        id_rule="mistral",
        quirks=Quirks(
            # The usage stands on the last chunk anyway; the option is refused as unknown.
            stream_options=False,
            prefill=Prefill.PREFIX,
            bridges_results=True,
        ),
    ),
    ProviderRow(
        name="xai",
        base_url="https://api.x.ai/v1",
        key_env="XAI_API_KEY",
        quirks=Quirks(thinking=ThinkingStyle.EFFORT),
    ),
    ProviderRow(
        name="zai",
        base_url="https://api.z.ai/api/paas/v4",
        key_env="ZAI_API_KEY",
        quirks=Quirks(
            reasoning_back=ReasoningBack.CONTENT,
            thinking=ThinkingStyle.TYPE,
            max_stops=1,
        ),
    ),
    ProviderRow(
        name="moonshot",
        base_url="https://api.moonshot.ai/v1",
        key_env="MOONSHOT_API_KEY",
        quirks=Quirks(
            reasoning_back=ReasoningBack.CONTENT,
            thinking=ThinkingStyle.TYPE,
            max_stops=5,
        ),
    ),
    ProviderRow(
        name="qwen",
        base_url="https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
        key_env="DASHSCOPE_API_KEY",
        quirks=Quirks(
            reasoning_back=ReasoningBack.CONTENT,
            thinking=ThinkingStyle.ENABLE,
        ),
    ),
    ProviderRow(
        name="nvidia",
        base_url="https://integrate.api.nvidia.com/v1",
        key_env="NVIDIA_API_KEY",
        quirks=Quirks(
            reasoning_back=ReasoningBack.CONTENT,
            thinking=ThinkingStyle.TEMPLATE,
            is_strict_template=True,
        ),
    ),
    ProviderRow(
        name="perplexity",
        base_url="https://api.perplexity.ai",
        key_env="PERPLEXITY_API_KEY",
        quirks=Quirks(
            thinking=ThinkingStyle.EFFORT,
            is_strict_template=True,
        ),
    ),
    ProviderRow(
        name="ollama",
        base_url="http://127.0.0.1:11434/v1",
        quirks=Quirks(
            reasoning_back=ReasoningBack.PLAIN,
            thinking=ThinkingStyle.EFFORT,
            verbatim_tools=True,
        ),
    ),
    ProviderRow(
        name="lmstudio",
        base_url="http://127.0.0.1:1234/v1",
        quirks=Quirks(
            reasoning_back=ReasoningBack.PLAIN,
            is_strict_template=True,
            verbatim_tools=True,
        ),
    ),
    ProviderRow(
        name="vllm",
        base_url="http://127.0.0.1:8000/v1",
        quirks=Quirks(
            reasoning_back=ReasoningBack.PLAIN,
            thinking=ThinkingStyle.TEMPLATE,
            is_strict_template=True,
            verbatim_tools=True,
        ),
    ),
    ProviderRow(
        name="llamacpp",
        base_url="http://127.0.0.1:8080/v1",
        quirks=Quirks(
            reasoning_back=ReasoningBack.CONTENT,
            thinking=ThinkingStyle.TEMPLATE,
            is_strict_template=True,
            prefill=Prefill.PLAIN,
            verbatim_tools=True,
        ),
    ),
    ProviderRow(
        name="litellm",
        base_url="http://127.0.0.1:4000/v1",
        key_env="LITELLM_API_KEY",
        quirks=Quirks(
            reasoning_back=ReasoningBack.CONTENT,
            thinking=ThinkingStyle.EFFORT,
            dummy_tool=True,
        ),
    ),
    ProviderRow(
        name="rehearsal",
        key_env="REHEARSAL_API_KEY",
        default_key="rehearsal",
        quirks=Quirks(reasoning_back=ReasoningBack.CONTENT, thinking=ThinkingStyle.EFFORT),
    ),
)

CUSTOM = ProviderRow(
    name="custom",
    key_env="CUSTOM_API_KEY",
    quirks=Quirks(
        reasoning_back=ReasoningBack.CONTENT,
        is_strict_template=True,
        verbatim_tools=True,
    ),
)
"""Any endpoint that speaks chat completions, with the caution that unknown servers deserve."""

PROVIDERS: Mapping[str, ProviderRow] = MappingProxyType({row.name: row for row in _ROWS})


def resolve(provider: str, table: Mapping[str, ProviderRow] = PROVIDERS) -> ProviderRow:
    """The row of a provider; a name without a row is a custom endpoint of that name."""
    row = table.get(provider.lower())
    return row if row is not None else msgspec.structs.replace(CUSTOM, name=provider)


def is_custom(row: ProviderRow) -> bool:
    """Whether a row is no known vendor's, but a server that somebody named themselves."""
    return row.name not in PROVIDERS
