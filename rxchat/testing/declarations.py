"""
What a dialect says of itself and what it sends, checked without a body.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from rxchat.dialects import Dialect
from rxchat.errors import ConfigurationError
from rxchat.framing import FRAMERS
from rxchat.outgoing.common import ModelCall
from rxchat.prompt import RequestOptions, as_messages

__all__ = ["declaration_faults", "request_faults"]

KEY = "planted-key-7f3a"


def declaration_faults(spec: Dialect) -> Iterator[str]:
    """
    Names, framings, options.
    """
    facts = {
        "a dialect has a name": bool(spec.name),
        "its doc says what it reads": bool(spec.doc),
        "it has a framing": bool(spec.framings),
        "its framings are framers": set(spec.framings.values()) <= set(FRAMERS),
        "its media types are lower case, without parameters": all(name == name.lower() and ";" not in name for name in spec.framings),
        **{f"option {name} has a doc": bool(option.doc) for name, option in spec.options.items()},
    }
    yield from (f"declaration | not so: {what}" for what, holds in facts.items() if not holds)


def request_faults(spec: Dialect, model: str, stream: bool) -> Iterator[str]:
    """
    What is sent is JSON, and no repr shows the key (contract S).
    """
    assert spec.request is not None
    call = ModelCall(model, as_messages("Hi"), "https://provider.invalid/v1", KEY, request=RequestOptions(stream=stream))
    try:
        request = spec.request(call)
        json.loads(request.content)
        shown = KEY in repr(request)
    except ConfigurationError as error:
        yield f"request, stream={stream} | a plain question is refused: {error}"
    except Exception as error:
        yield f"request, stream={stream} | {error!r}"
    else:
        if shown:
            yield f"request, stream={stream} | S: its repr shows the key"
