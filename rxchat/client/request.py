"""
Whom to ask, and the request that asks: a model's name resolved by the presets, then built by its dialect's builder.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs

from rxchat.errors import ConfigurationError
from rxchat.outgoing import openai_chat
from rxchat.outgoing.common import ModelCall, WireRequest
from rxchat.presets import PRESETS, Preset, preset_names
from rxchat.prompt import Prompt, RequestOptions, ToolSpec, as_messages

__all__ = ["Target", "resolve"]

# One line a dialect that can be asked.
BUILDERS: Mapping[str, Callable[[ModelCall], WireRequest]] = {"openai-chat": openai_chat.build}


@attrs.frozen
class Target:
    """
    A model at a provider; `base_url` and `api_key` are the caller's own. The environment is read when a request is built, not before.
    """

    model: str
    preset: Preset
    base_url: str | None = None
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
        The key given, else the environment's; ConfigurationError where one is wanted and there is none.
        """
        variable = self.preset.key_env
        key = self.api_key or (os.environ.get(variable) if variable else None)
        if not key and variable:
            raise ConfigurationError(f"there is no key for {self.preset.name}: set {variable}, or give api_key")
        return key

    def request(self, prompt: Prompt, tools: Sequence[ToolSpec], said: Mapping[str, Any]) -> WireRequest:
        """
        The HTTP request; ConfigurationError for what cannot be asked.
        """
        build = BUILDERS.get(self.preset.dialect)
        if build is None:
            raise ConfigurationError(f"requests of the dialect {self.preset.dialect} cannot be made; those of {', '.join(BUILDERS)} can")
        return build(ModelCall(self.model, as_messages(prompt), self.address, self.key, tuple(tools), _options(said), self.preset.quirks))


def _options(said: Mapping[str, Any]) -> RequestOptions:
    known = attrs.fields_dict(RequestOptions)
    unknown = sorted(set(said) - set(known))
    if unknown:
        raise ConfigurationError(f"there is no request option {', '.join(unknown)}; there are: {', '.join(known)}")
    return RequestOptions(**said)


def resolve(model: str, base_url: str | None = None, api_key: str | None = None) -> Target:
    """
    The target of "provider/name". With `base_url`, a name without a known provider goes there as it is, and no key is looked up for it.
    """
    provider, _, name = model.partition("/")
    if name and provider in PRESETS:
        return Target(name, PRESETS[provider], base_url, api_key)
    if base_url is None:
        raise ConfigurationError(f'{model!r} names no model: say "provider/name" with one of {", ".join(preset_names())}, or give base_url')
    # A server nobody knows most likely takes what all took before the field was renamed.
    return Target(model, Preset("custom", base_url, "", "", quirks={"max_tokens_field": "max_tokens"}), base_url, api_key)
