"""
Prompts: what may be said, and what is told about what may not.
"""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from rxchat.errors import ConfigurationError
from rxchat.prompt import JsonSchema, Message, RequestOptions, Role, ToolSpec, as_messages, audio, file, image, media_from_path
from rxchat.response import ChatResponse, MediaPart, TextPart, ThinkingPart, ToolCall, ToolResultPart

CALL = ToolCall("c1", "get", "{}", {}, complete=True)
SERVED = ToolCall("s1", "search", "{}", {}, complete=True, server_executed=True)


def test_messages() -> None:
    """
    Texts become parts; a result belongs to a call or its id.
    """
    assert Message(Role.SYSTEM, (TextPart("s"),)) == Message.system("s")
    assert Message(Role.USER, (TextPart("a"), MediaPart("image", url="u"))) == Message.user("a", MediaPart("image", url="u"))
    assert Message(Role.ASSISTANT, (ThinkingPart("t"), TextPart("a"))) == Message.assistant(ThinkingPart("t"), "a")
    assert Message(Role.TOOL, (ToolResultPart("c1", {"a": 1}, True),)) == Message.tool(CALL, {"a": 1}, is_error=True)
    assert Message.tool("c1", "r") == Message.tool(CALL, "r")
    assert "ab" == Message.user("a", MediaPart("image", url="u"), "b").text


def test_of_one_step() -> None:
    """
    A response without steps is one message, with what it said beside its parts.
    """
    answer = ChatResponse(parts=(TextPart("a"), CALL), metadata={"phases": {"m": "final"}})
    [message] = Message.of(answer)
    assert (Role.ASSISTANT, (TextPart("a"), CALL), {"phases": {"m": "final"}}) == (message.role, message.parts, message.metadata)


def test_of_several_steps() -> None:
    """
    Each step is a message, followed by the results of the calls that were run here; those the provider ran stay where they came.
    """
    served = ToolResultPart("s1", "found")
    ran = ToolResultPart("c1", "done")
    first = ChatResponse(parts=(SERVED, served, CALL, ran))
    second = ChatResponse(parts=(TextPart("end"),))
    whole = ChatResponse(parts=first.parts + second.parts, steps=(first, second))
    assert (Message.assistant(SERVED, served, CALL), Message(Role.TOOL, (ran,)), Message.assistant("end")) == Message.of(whole)


@pytest.mark.parametrize(
    "prompt, expected",
    [
        ("Hi", (Message.user("Hi"),)),
        (Message.system("s"), (Message.system("s"),)),
        (ChatResponse(parts=(TextPart("a"),)), (Message.assistant("a"),)),
        (["Hi", ChatResponse(parts=(TextPart("a"),)), "Go on"], (Message.user("Hi"), Message.assistant("a"), Message.user("Go on"))),
        ([{"role": "system", "content": "s"}, {"content": ["a", MediaPart("image", url="u")]}], None),
    ],
)
def test_as_messages(prompt: Any, expected: tuple[Message, ...] | None) -> None:
    """
    Texts, messages, responses, mappings, and sequences of them.
    """
    assert (expected or (Message.system("s"), Message.user("a", MediaPart("image", url="u")))) == as_messages(prompt)


@pytest.mark.parametrize(
    "prompt, words",
    [
        ([], "the prompt is empty"),
        ([3], "a prompt is made of texts, messages and responses, not int"),
        ([{"role": "user", "content": "a", "name": "n"}], "a message mapping has role and content, not name; use rxchat.Message"),
        ([{"role": "robot", "content": "a"}], "unknown role 'robot'; roles are system, user, assistant, tool"),
        ([{"role": "user"}], "the content of a message is a text or a list of texts and parts"),
        ([{"role": "user", "content": [{"type": "text"}]}], "the content of a message is a text or a list of texts and parts"),
    ],
)
def test_what_is_no_prompt(prompt: Any, words: str) -> None:
    """
    Told before anything is sent.
    """
    with pytest.raises(ConfigurationError, match=words):
        as_messages(prompt)


def test_media(tmp_path: Path) -> None:
    """
    By URL, by bytes, by file: its type by its name, unless said.
    """
    assert MediaPart("image", None, url="https://e/x.png") == image("https://e/x.png")
    assert MediaPart("audio", "audio/wav", base64.b64encode(b"abc").decode()) == audio(b"abc", "audio/wav")
    path = tmp_path / "a.pdf"
    path.write_bytes(b"%PDF")
    assert MediaPart("file", "application/pdf", base64.b64encode(b"%PDF").decode(), name="a.pdf") == file(path)
    assert "other.pdf" == file(path, name="other.pdf").name
    assert "text/plain" == media_from_path("file", path, "text/plain").mime
    assert b"%PDF" == file(path).content


@pytest.mark.parametrize("prompt", [3, b"Hi", {"role": "user", "content": "Hi"}])
def test_what_is_no_prompt_at_all(prompt: Any) -> None:
    """
    Its type is named.
    """
    with pytest.raises(ConfigurationError, match=f"a prompt is a text, a message, or a list of them, not {type(prompt).__name__}"):
        as_messages(prompt)


def test_media_that_cannot_be(tmp_path: Path) -> None:
    """
    Bytes without a type, a file without a known one, a file that is not there.
    """
    with pytest.raises(ConfigurationError, match="image given as bytes needs a mime type"):
        image(b"abc")
    unknown = tmp_path / "a.unheardof"
    unknown.write_bytes(b"x")
    with pytest.raises(ConfigurationError, match="needs a mime type"):
        file(unknown)
    with pytest.raises(ConfigurationError, match=r"cannot read .*gone\.png: No such file"):
        image(tmp_path / "gone.png")


def test_options() -> None:
    """
    One stop word is a tuple of one; headers, which may hold a key, have no repr.
    """
    assert ("END",) == RequestOptions(stop="END").stop
    assert ("a", "b") == RequestOptions(stop=["a", "b"]).stop
    assert () == RequestOptions(stop=None).stop
    assert "secret" not in repr(RequestOptions(extra_headers={"x": "secret"}))
    assert {"type": "object", "properties": {}} == ToolSpec("t").parameters
    assert "answer" == JsonSchema({}).name
