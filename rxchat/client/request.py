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
from rxchat.prompt import Prompt, RequestOptions, ToolSpec, as_messages

__all__ = ["Target", "resolve"]

# One line a dialect that can be asked.
BUILDERS: Mapping[str, Callable[[ModelCall], WireRequest]] = {"openai-chat": openai_chat.build}
# What a server speaks that no preset knows.
COMMON_DIALECT = "openai-chat"


@attrs.frozen
class Target:
    """
    A model at a provider. `key_env` names the environment variable of its key, "" where none is wanted; `options` are its parser's, `quirks` its builder's.
    """

    model: str
    base_url: str
    dialect: str = COMMON_DIALECT
    api_key: str | None = attrs.field(default=None, repr=False)
    key_env: str = ""
    options: Mapping[str, Any] = attrs.field(factory=dict)
    quirks: Mapping[str, Any] = attrs.field(factory=dict)

    @property
    def key(self) -> str | None:
        """
        The key given, else the environment's; ConfigurationError where one is wanted and there is none.
        """
        key = self.api_key or os.environ.get(self.key_env)
        if not key and self.key_env:
            raise ConfigurationError(f"there is no API key: set {self.key_env}, or give api_key")
        return key

    def request(self, prompt: Prompt, tools: Sequence[ToolSpec], said: Mapping[str, Any]) -> WireRequest:
        """
        The HTTP request; ConfigurationError for what cannot be asked.
        """
        known = attrs.fields_dict(RequestOptions)
        unknown = sorted(set(said) - set(known))
        if unknown:
            raise ConfigurationError(f"there is no request option {', '.join(unknown)}; there are: {', '.join(known)}")
        build = BUILDERS.get(self.dialect)
        if build is None:
            raise ConfigurationError(f"requests of dialect {self.dialect} cannot be made yet; of these they can: {', '.join(BUILDERS)}")
        call = ModelCall(self.model, as_messages(prompt), self.base_url, self.key, tuple(tools), RequestOptions(**said), self.quirks)
        return build(call)


def resolve(model: str, base_url: str | None = None, api_key: str | None = None) -> Target:
    """
    The target of "provider/name". With `base_url`, a name without a known provider goes there as it is, and no key is looked up for it.
    """
    from rxchat.presets import PRESETS  # TEMP

    provider, _, name = model.partition("/")
    preset = PRESETS.get(provider) if name else None
    if preset is not None:
        return _of_preset(preset, name, base_url, api_key)
    if base_url is None:
        raise ConfigurationError(f'{model!r} names no model: say "provider/name" with one of {", ".join(sorted(PRESETS))}, or give base_url')
    return Target(model, base_url, api_key=api_key)


def _of_preset(preset: Any, name: str, base_url: str | None, api_key: str | None) -> Target:
    return Target(
        name,
        base_url or preset.base_url,
        preset.dialect,
        api_key,
        preset.key_env,
        preset.options,
        preset.quirks,
    )
