"""
Whom to ask, and the request that asks: a model's name resolved by the presets, then built by its dialect's builder.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from rxchat.dialects import get_dialect
from rxchat.errors import ConfigurationError
from rxchat.outgoing.addresses import check_address, masked_url
from rxchat.outgoing.common import ModelCall, WireRequest
from rxchat.presets import PRESETS, Preset, unknown_provider
from rxchat.prompt import Prompt, RequestOptions, as_messages
from rxchat.tools import ToolLike
from rxchat.tools.toolsets import as_tool_set

__all__ = ["Target", "resolve", "unforced", "with_quirks"]


@attrs.frozen
class Target:
    """
    A model at a provider; `base_url` and `api_key` are the caller's own. The environment is read when a request is built, not before.
    """

    model: str
    preset: Preset
    base_url: str | None = attrs.field(default=None, repr=lambda url: repr(url and masked_url(url)))
    api_key: str | None = attrs.field(default=None, repr=False)

    @property
    def address(self) -> str:
        """
        The base URL; ConfigurationError where the provider has one for each account and the environment does not say which.
        """
        return self.base_url or self.preset.base_url_for()

    @property
    def key(self) -> str | None:
        """
        The key given, else the environment's; ConfigurationError where one is wanted and there is none, or where it cannot be a header.
        """
        key = self.api_key or self.preset.key_in(os.environ)
        if not key and self.preset.key_env and not self.preset.key_optional:
            raise ConfigurationError(f"there is no key for {self.preset.name}: set {' or '.join(self.preset.key_env.split())}, or give api_key")
        if key and not key.isprintable():
            raise ConfigurationError(f"the key for {self.preset.name} ({self._key_source()}) holds a line end or another control character")
        return key

    def _key_source(self) -> str:
        return "api_key" if self.api_key else next(name for name in self.preset.key_env.split() if os.environ.get(name))

    def request(self, prompt: Prompt, tools: Iterable[ToolLike], said: Mapping[str, Any], options: Mapping[str, Any]) -> WireRequest:
        """
        The HTTP request; `options` are those the answer will be read with. ConfigurationError for what cannot be asked.
        """
        build = get_dialect(self.preset.dialect).request
        if build is None:
            raise ConfigurationError(f"the dialect {self.preset.dialect} can be read but not asked: it builds no requests")
        quirks = {**options, **self.preset.quirks}
        return build(ModelCall(self.model, as_messages(prompt), self.address, self.key, as_tool_set(tools).specs, _options(said), quirks))


def unforced(said: Mapping[str, Any]) -> Mapping[str, Any]:
    """
    The same request for the steps behind the first: without a `tool_choice` that would have the model call tools for ever.
    """
    return said if _options(said).tool_choice in (None, "auto", "none") else {**said, "tool_choice": None}


def _options(said: Mapping[str, Any]) -> RequestOptions:
    """
    The fields that were said, on top of an `options` that holds them all.
    """
    fields = dict(said)
    base = fields.pop("options", None)
    if base is not None and not isinstance(base, RequestOptions):
        raise ConfigurationError(f"options of a request are a RequestOptions, not {type(base).__name__}")
    known = attrs.fields_dict(RequestOptions)
    unknown = sorted(set(fields) - set(known))
    if unknown:
        raise ConfigurationError(f"there is no request option {', '.join(unknown)}; there are: {', '.join(known)}")
    return attrs.evolve(base or RequestOptions(), **fields)


# What the request builders know how to do otherwise.
QUIRKS = frozenset({"max_tokens_field", "include_usage", "reasoning", "thinking_field"})


def with_quirks(target: Target, quirks: Mapping[str, Any]) -> Target:
    """
    The same target, asked with these quirks on top of its preset's; ConfigurationError for one that no builder knows.
    """
    unknown = sorted(set(quirks) - QUIRKS)
    if unknown:
        raise ConfigurationError(f"there is no quirk {', '.join(unknown)}; there are: {', '.join(sorted(QUIRKS))}")
    return attrs.evolve(target, preset=attrs.evolve(target.preset, quirks={**target.preset.quirks, **quirks}))


def resolve(model: str, base_url: str | None = None, api_key: str | None = None, dialect: str | None = None) -> Target:
    """
    The target of "provider/name". With `base_url`, a name without a known provider goes there as it is, and no key is looked up for it.

    `dialect` is what that server speaks, or what a known provider speaks there instead of its usual one.
    """
    if not isinstance(model, str):
        raise ConfigurationError(f'a model is named by a text, "provider/name", not {type(model).__name__}')
    if base_url is not None:
        check_address(base_url)
    provider, slash, name = model.partition("/")
    if not model.strip() or (provider in PRESETS and slash and not name):
        raise ConfigurationError(f"the name of the model is missing: {model!r}" if model.strip() else "model is empty")
    if name and provider in PRESETS:
        preset = PRESETS[provider]
        return Target(name, attrs.evolve(preset, dialect=dialect, options={}, quirks={}) if dialect else preset, base_url, api_key)
    if base_url is None:
        if slash:
            raise ConfigurationError(f'{unknown_provider(provider)}; say "provider/name", or give base_url')
        example = f"{provider}/..." if provider in PRESETS else "`rxchat providers` lists all"
        raise ConfigurationError(f'{model!r} names no model: say "provider/name" ({example}), or give base_url')
    # A server nobody knows most likely takes what all took before the field was renamed.
    quirks = {"max_tokens_field": "max_tokens"} if dialect in (None, "openai-chat") else {}
    return Target(model, Preset("custom", base_url, "", "", dialect or "openai-chat", quirks=quirks), base_url, api_key)
