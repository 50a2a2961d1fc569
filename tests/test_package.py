"""
What `import rxchat` offers.
"""

from __future__ import annotations

import pkgutil
import subprocess
import sys

import pytest

import rxchat
from rxchat.dialects import DIALECTS
from rxchat.events import EVENT_TYPES

# Contract section 1, and the standard composition.
OPERATORS = [
    "decode_utf8",
    "frame_sse",
    "frame_ndjson",
    "frame_json_array",
    "frame_aws_event_stream",
    "parse",
    "normalize",
    "filter_events",
    "aggregate",
    "of_type",
    "text_only",
    "thinking_only",
    "tool_calls",
    "citations",
    "media",
    "safety",
    "usage",
    "for_ui",
    "to_records",
    "batch_text",
    "split_think_tags",
    "share_events",
    "to_async_iterable",
    "chat_events",
    "lift",
]


def test_all_names_are_there() -> None:
    """
    Every operator by the name the contract gives it, every event, and nothing that cannot be imported.
    """
    assert set(OPERATORS) <= set(rxchat.__all__)
    assert {cls.__name__ for cls in EVENT_TYPES.values()} <= set(rxchat.__all__)
    assert sorted(rxchat.__all__) == sorted(set(rxchat.__all__))
    for name in rxchat.__all__:
        assert getattr(rxchat, name) is not None
    assert set(rxchat.__all__) <= set(dir(rxchat))


def test_no_public_name_is_a_module() -> None:
    """
    `rxchat.x` is never two things.
    """
    modules = {module.name for module in pkgutil.iter_modules(rxchat.__path__)}
    assert modules & set(rxchat.__all__) == set()


def test_what_is_not_there() -> None:
    """
    Said as Python says it.
    """
    with pytest.raises(AttributeError, match="nonsense"):
        _ = rxchat.nonsense  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("statement", "absent"),
    [
        ("import rxchat.errors, rxchat.events", "reactivex aiohttp cattrs"),
        ("from rxchat import TextDelta, ChatResponse, Limits", "reactivex aiohttp cattrs"),
        ("from rxchat import text_only, chat_events, aggregate", "aiohttp"),
    ],
)
def test_names_are_imported_when_they_are_asked_for(statement: str, absent: str) -> None:
    """
    Who needs only values waits for neither RxPY nor an HTTP client.
    """
    assert imported(statement, absent) == []


def imported(program: str, *prefixes: str) -> list[str]:
    """
    Which of these modules, or below them, a fresh interpreter has imported behind the program.
    """
    tail = "\nimport sys; print(*sorted(sys.modules))"
    ended = subprocess.run([sys.executable, "-c", program + tail], capture_output=True, text=True, check=True)
    wanted = " ".join(prefixes).split()
    return [name for name in ended.stdout.split() if any(f"{name}.".startswith(f"{prefix}.") for prefix in wanted)]


# A plain answer, as far as it goes without a server.
PLAIN = """
import reactivex, rxchat
from rxchat.client import HttpSettings
from rxchat.errors import ConnectError

seen = []
body = b'data: {"choices": [{"index": 0, "delta": {"content": "Hi"}, "finish_reason": "stop"}]}\\n\\ndata: [DONE]\\n\\n'
reactivex.of(body).pipe(rxchat.chat_events("openai-chat"), rxchat.text_only()).subscribe(seen.append)
assert seen == ["Hi"]
model = rxchat.ChatModel("some-model", base_url="http://127.0.0.1:1", settings=HttpSettings(retry=None))
try:
    model.call_sync("Hi"%s)
    raise SystemExit("somebody answered")
except ConnectError:
    pass
"""
# What reads types and schemas, and what runs tools.
FOR_TOOLS = """
    jsonschema referencing cattrs mcp rxchat.toolschema.hints rxchat.toolschema.signatures rxchat.toolschema.structuring rxchat.client.steps
    rxchat.tools.answers rxchat.tools.checking rxchat.tools.invoking rxchat.tools.mcp_sessions rxchat.tools.parallel rxchat.tools.running
"""
FOR_OTHERS = (
    "jinja2 sqlite3 redis rich click rxchat.conversation rxchat.stores rxchat.serialize rxchat.structuring rxchat.previews rxchat.testing rxchat.cli"
)


def test_a_plain_answer_waits_for_nothing_else() -> None:
    """
    Whoever gives no tools imports neither what reads types and schemas nor what runs tools; nor stores, templates, a terminal.
    """
    assert imported(PLAIN % "", FOR_TOOLS, FOR_OTHERS) == []


def test_tools_that_are_only_offered_are_not_run() -> None:
    """
    A bare schema needs no more than none does; a function brings all that runs it.
    """
    assert imported(PLAIN % ", tools=[rxchat.ToolSpec('weather')]", FOR_TOOLS) == []
    function = "def weather(place: str) -> str: return place"
    assert set(FOR_TOOLS.split()) - {"mcp", "rxchat.tools.mcp_sessions"} <= set(imported(f"{function}\n{PLAIN}" % ", tools=[weather]", FOR_TOOLS))


# Those that speak another's protocol in parts.
BUILT_ON = {
    "bedrock-converse": "anthropic",
    "bedrock-invoke": "anthropic bedrock_converse",
    "gemini-interactions": "gemini",
    "mistral": "openai_chat",
}


@pytest.mark.parametrize("name", DIALECTS)
def test_one_dialect_does_not_import_the_others(name: str) -> None:
    """
    Neither their parsers nor their request builders, but for those it is built on.
    """
    own = DIALECTS[name].partition(":")[0].rpartition(".")[2]
    others = {where.partition(":")[0].rpartition(".")[2] for where in DIALECTS.values()} - {own, *BUILT_ON.get(name, "").split()}
    modules = [f"rxchat.{package}.{other}" for package in ("dialects", "outgoing") for other in sorted(others)]
    assert imported(f"import rxchat; rxchat.chat_events({name!r})", *modules) == []
