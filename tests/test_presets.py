"""
The table of providers: complete, checked against the dialects, nothing switched on that is the user's choice.
"""

from __future__ import annotations

from string import Formatter
from urllib.parse import urlsplit

import attrs
import pytest

from rxchat.dialects import get_dialect
from rxchat.errors import ConfigurationError
from rxchat.presets import PRESETS, Preset, get_preset, preset_names


@pytest.mark.parametrize("name", preset_names())
def test_presets(name: str) -> None:
    """
    Each has a dialect that exists and takes its options, an address, a page that says so, and never reads tags as thinking (contract P16).
    """
    preset = get_preset(name)
    assert name == preset.name
    get_dialect(preset.dialect).context(preset.options)
    assert "think_tags" not in preset.options
    local = urlsplit(preset.base_url).hostname == "localhost"
    assert urlsplit(preset.base_url).scheme == ("http" if local else "https")
    assert not preset.base_url.endswith("/")
    assert urlsplit(preset.doc).scheme == "https"
    assert preset.key_env.isupper() or (local and not preset.key_env)
    assert not preset.key_optional or preset.key_env
    assert {field for _, field, _, _ in Formatter().parse(preset.base_url) if field} == set(preset.places)


def test_names() -> None:
    """
    Names are sorted; of an unknown one it is said which are near, and where all are listed.
    """
    assert sorted(PRESETS) == list(preset_names())
    with pytest.raises(ConfigurationError, match=f"unknown provider 'nope'; there are {len(PRESETS)}, `rxchat providers` lists all$"):
        get_preset("nope")
    with pytest.raises(ConfigurationError, match=r"unknown provider 'opnai'; did you mean openai\?"):
        get_preset("opnai")


def test_documented_quirks() -> None:
    """
    The one provider that never sends a finish_reason is read so.
    """
    assert {"finish": "optional"} == dict(get_preset("snowflake").options)
    assert [] == [name for name, preset in PRESETS.items() if preset.options and name != "snowflake" and preset.dialect == "openai-chat"]


def test_addresses_with_places(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    A place in an address is filled from the environment; a missing one is named.
    """
    preset = get_preset("snowflake")
    assert "https://me.snowflakecomputing.com/api/v2/cortex/v1" == preset.base_url_for({"SNOWFLAKE_ACCOUNT": "me"})
    with pytest.raises(ConfigurationError, match="set SNOWFLAKE_ACCOUNT, or give base_url"):
        preset.base_url_for({})
    monkeypatch.setenv("SNOWFLAKE_ACCOUNT", "you")
    assert "https://you.snowflakecomputing.com/api/v2/cortex/v1" == preset.base_url_for()
    assert "https://api.openai.com/v1" == get_preset("openai").base_url_for({})


def test_presets_are_values() -> None:
    """
    A caller makes a variant without changing the table.
    """
    mine = attrs.evolve(get_preset("openai"), base_url="https://proxy.example/v1")
    assert isinstance(mine, Preset)
    assert "https://api.openai.com/v1" == get_preset("openai").base_url
