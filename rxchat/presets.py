"""
Providers by name: which dialect they speak, where, whose key they want, and what is odd about them.

Only what a provider documents, or what its recorded streams do without exception, is an option here; a preset never switches `think_tags` on (contract P16).
A URL in braces has a place for the caller's own account: `base_url_for` fills it from the environment.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from rxchat.errors import ConfigurationError
from rxchat.outgoing.addresses import masked_url

__all__ = ["PRESETS", "Preset", "get_preset", "preset_names", "unknown_provider"]


@attrs.frozen
class Preset:
    """
    One provider. `key_env` names the environment variable of its key, "" where none is wanted; `options` are its parser's, `quirks` its request builder's;
    `places` names the variable of each place in a URL with braces; `doc` is the page that says so. Several variables are separated by spaces, the first
    that is set counts. `key_optional`: it can be asked without a key (AWS signs requests instead).
    """

    name: str
    base_url: str = attrs.field(repr=masked_url)
    key_env: str
    doc: str
    dialect: str = "openai-chat"
    options: Mapping[str, Any] = attrs.field(factory=dict)
    quirks: Mapping[str, Any] = attrs.field(factory=dict)
    places: Mapping[str, str] = attrs.field(factory=dict)
    key_optional: bool = False

    def key_in(self, environ: Mapping[str, str]) -> str | None:
        """
        The key the environment holds.
        """
        return _first(self.key_env, environ)

    def base_url_for(self, environ: Mapping[str, str] | None = None) -> str:
        """
        The URL with its places filled in; ConfigurationError names the variable that is missing.
        """
        values = os.environ if environ is None else environ
        found = {place: _first(variables, values) for place, variables in self.places.items()}
        missing = [" or ".join(self.places[place].split()) for place, value in found.items() if value is None]
        if missing:
            raise ConfigurationError(f"provider {self.name} has no address of its own for you: set {', '.join(missing)}, or give base_url")
        return self.base_url.format(**found)


def _first(variables: str, environ: Mapping[str, str]) -> str | None:
    return next((environ[variable] for variable in variables.split() if environ.get(variable)), None)


# The field OpenAI called so before it had reasoning models, and most others still do.
_MAX_TOKENS: Mapping[str, Any] = {"max_tokens_field": "max_tokens"}
# These want the reasoning before a tool call back with it.
_THINKS: Mapping[str, Any] = {**_MAX_TOKENS, "thinking_field": "reasoning_content"}
_GOOGLE, _GOOGLE_KEYS = "https://generativelanguage.googleapis.com/v1", "GOOGLE_API_KEY GEMINI_API_KEY"
_BEDROCK, _BEDROCK_KEY = "https://bedrock-runtime.{region}.amazonaws.com", "AWS_BEARER_TOKEN_BEDROCK"
_BEDROCK_DOC = "https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_{}.html"
_REGION: Mapping[str, str] = {"region": "AWS_REGION AWS_DEFAULT_REGION"}


def _table(presets: Iterable[Preset]) -> Mapping[str, Preset]:
    return {preset.name: preset for preset in presets}


PRESETS: Mapping[str, Preset] = _table(
    (
        Preset("openai", "https://api.openai.com/v1", "OPENAI_API_KEY", "https://platform.openai.com/docs/api-reference/chat"),
        Preset("deepseek", "https://api.deepseek.com", "DEEPSEEK_API_KEY", "https://api-docs.deepseek.com/guides/thinking_mode", quirks=_THINKS),
        Preset("mistral", "https://api.mistral.ai/v1", "MISTRAL_API_KEY", "https://docs.mistral.ai/api", "mistral"),
        Preset("groq", "https://api.groq.com/openai/v1", "GROQ_API_KEY", "https://console.groq.com/docs/openai"),
        Preset("xai", "https://api.x.ai/v1", "XAI_API_KEY", "https://docs.x.ai/docs/api-reference"),
        Preset(
            "openrouter",
            "https://openrouter.ai/api/v1",
            "OPENROUTER_API_KEY",
            "https://openrouter.ai/docs/api-reference/overview",
            quirks={**_MAX_TOKENS, "reasoning": "object", "thinking_field": "reasoning_details"},
        ),
        Preset(
            "together",
            "https://api.together.xyz/v1",
            "TOGETHER_API_KEY",
            "https://docs.together.ai/docs/openai-api-compatibility",
            quirks=_MAX_TOKENS,
        ),
        Preset("cerebras", "https://api.cerebras.ai/v1", "CEREBRAS_API_KEY", "https://inference-docs.cerebras.ai/resources/openai"),
        Preset(
            "perplexity",
            "https://api.perplexity.ai",
            "PERPLEXITY_API_KEY",
            "https://docs.perplexity.ai/guides/chat-completions-guide",
            quirks={**_MAX_TOKENS, "include_usage": False},
        ),
        Preset(
            "dashscope-compatible",
            "https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
            "DASHSCOPE_API_KEY",
            "https://www.alibabacloud.com/help/en/model-studio/compatibility-of-openai-with-dashscope",
            quirks=_MAX_TOKENS,
        ),
        Preset("zai", "https://api.z.ai/api/paas/v4", "ZAI_API_KEY", "https://docs.z.ai/api-reference/llm/chat-completion", quirks=_THINKS),
        Preset("moonshot", "https://api.moonshot.ai/v1", "MOONSHOT_API_KEY", "https://platform.moonshot.ai/docs/api/chat", quirks=_THINKS),
        Preset(
            "huggingface", "https://router.huggingface.co/v1", "HF_TOKEN", "https://huggingface.co/docs/inference-providers/index", quirks=_MAX_TOKENS
        ),
        Preset(
            "baseten",
            "https://inference.baseten.co/v1",
            "BASETEN_API_KEY",
            "https://docs.baseten.co/inference/model-apis/overview",
            quirks=_MAX_TOKENS,
        ),
        Preset("crusoe", "https://api.inference.crusoecloud.com/v1", "CRUSOE_API_KEY", "https://docs.crusoecloud.com/managed-inference/overview"),
        Preset("doubleword", "https://api.doubleword.ai/v1", "DOUBLEWORD_API_KEY", "https://docs.doubleword.ai/inference-api"),
        Preset("avian", "https://api.avian.io/v1", "AVIAN_API_KEY", "https://avian.io/docs/", quirks=_MAX_TOKENS),
        Preset("xiaomi", "https://api.xiaomimimo.com/v1", "MIMO_API_KEY", "https://platform.xiaomimimo.com/docs/en-US/api/chat/openai-api"),
        Preset("vercel-gateway", "https://ai-gateway.vercel.sh/v1", "AI_GATEWAY_API_KEY", "https://vercel.com/docs/ai-gateway", quirks=_MAX_TOKENS),
        Preset("venice", "https://api.venice.ai/api/v1", "VENICE_API_KEY", "https://docs.venice.ai/api-reference/api-spec"),
        Preset("ai21", "https://api.ai21.com/studio/v1", "AI21_API_KEY", "https://docs.ai21.com/reference/jamba-1-6-api-ref", quirks=_MAX_TOKENS),
        Preset(
            "gemini-compatible",
            "https://generativelanguage.googleapis.com/v1beta/openai",
            "GEMINI_API_KEY",
            "https://ai.google.dev/gemini-api/docs/openai",
        ),
        Preset("writer", "https://api.writer.com/v1", "WRITER_API_KEY", "https://dev.writer.com/home/chat-completion", quirks=_MAX_TOKENS),
        Preset(
            "fireworks",
            "https://api.fireworks.ai/inference/v1",
            "FIREWORKS_API_KEY",
            "https://docs.fireworks.ai/tools-sdks/openai-compatibility",
            quirks=_MAX_TOKENS,
        ),
        Preset("deepinfra", "https://api.deepinfra.com/v1/openai", "DEEPINFRA_TOKEN", "https://deepinfra.com/docs/openai_api", quirks=_MAX_TOKENS),
        # In protocols of their own.
        Preset(
            "openai-responses",
            "https://api.openai.com/v1",
            "OPENAI_API_KEY",
            "https://platform.openai.com/docs/api-reference/responses",
            "openai-responses",
        ),
        Preset("anthropic", "https://api.anthropic.com", "ANTHROPIC_API_KEY", "https://platform.claude.com/docs/en/api/messages", "anthropic"),
        Preset("gemini", _GOOGLE, _GOOGLE_KEYS, "https://ai.google.dev/api/generate-content", "gemini"),
        Preset("gemini-interactions", _GOOGLE, _GOOGLE_KEYS, "https://ai.google.dev/api/interactions-api", "gemini-interactions"),
        Preset("cohere", "https://api.cohere.com", "CO_API_KEY COHERE_API_KEY", "https://docs.cohere.com/reference/chat", "cohere"),
        Preset(
            "dashscope",
            "https://dashscope-intl.aliyuncs.com",
            "DASHSCOPE_API_KEY",
            "https://www.alibabacloud.com/help/en/model-studio/qwen-api-reference/",
            "dashscope",
            # Asked for in the request, and read so.
            options={"incremental_output": True},
        ),
        Preset("ollama", "http://localhost:11434", "OLLAMA_API_KEY", "https://docs.ollama.com/api/chat", "ollama", key_optional=True),
        Preset("bedrock", _BEDROCK, _BEDROCK_KEY, _BEDROCK_DOC.format("ConverseStream"), "bedrock-converse", places=_REGION, key_optional=True),
        Preset(
            "bedrock-invoke",
            _BEDROCK,
            _BEDROCK_KEY,
            _BEDROCK_DOC.format("InvokeModelWithResponseStream"),
            "bedrock-invoke",
            places=_REGION,
            key_optional=True,
        ),
        # At an address of the caller's own.
        Preset(
            "azure",
            "https://{resource}.openai.azure.com/openai/v1",
            "AZURE_OPENAI_API_KEY",
            "https://learn.microsoft.com/azure/ai-foundry/openai/api-version-lifecycle",
            places={"resource": "AZURE_RESOURCE_NAME"},
        ),
        Preset(
            "databricks",
            "https://{host}/serving-endpoints",
            "DATABRICKS_TOKEN",
            "https://docs.databricks.com/machine-learning/model-serving/score-foundation-models",
            quirks=_MAX_TOKENS,
            places={"host": "DATABRICKS_HOST"},
        ),
        Preset(
            "cloudflare",
            "https://api.cloudflare.com/client/v4/accounts/{account}/ai/v1",
            "CLOUDFLARE_API_TOKEN",
            "https://developers.cloudflare.com/workers-ai/configuration/open-ai-compatibility/",
            quirks=_MAX_TOKENS,
            places={"account": "CLOUDFLARE_ACCOUNT_ID"},
        ),
        Preset(
            "snowflake",
            "https://{account}.snowflakecomputing.com/api/v2/cortex/v1",
            "SNOWFLAKE_PAT",
            "https://docs.snowflake.com/user-guide/snowflake-cortex/open_ai_sdk",
            # It sends no finish_reason, ever.
            options={"finish": "optional"},
            places={"account": "SNOWFLAKE_ACCOUNT"},
        ),
        # On the caller's own machine.
        Preset("ollama-compatible", "http://localhost:11434/v1", "", "https://docs.ollama.com/api/openai-compatibility", quirks=_MAX_TOKENS),
        Preset("vllm", "http://localhost:8000/v1", "", "https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html"),
        Preset(
            "llamacpp",
            "http://localhost:8080/v1",
            "",
            "https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md",
            quirks=_MAX_TOKENS,
        ),
        Preset("litellm", "http://localhost:4000", "LITELLM_API_KEY", "https://docs.litellm.ai/docs/simple_proxy", quirks=_MAX_TOKENS),
    )
)


def get_preset(name: str) -> Preset:
    """
    The provider of that name; ConfigurationError says which name is near.
    """
    preset = PRESETS.get(name)
    if preset is None:
        raise ConfigurationError(unknown_provider(name))
    return preset


def unknown_provider(name: str) -> str:
    """
    The sentence about a name that no provider has: the nearest ones that exist.
    """
    # Here: only a mistake needs it.
    import difflib

    near = difflib.get_close_matches(name.lower(), PRESETS, n=2, cutoff=0.65)
    hint = f"did you mean {' or '.join(near)}?" if near else f"there are {len(PRESETS)},"
    return f"unknown provider {name!r}; {hint} `rxchat providers` lists all"


def preset_names() -> tuple[str, ...]:
    """
    All names, sorted.
    """
    return tuple(sorted(PRESETS))
