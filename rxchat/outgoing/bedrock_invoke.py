"""
Requests of Amazon Bedrock's InvokeModelWithResponseStream and InvokeModel: each model's maker has a body of its own.

The maker is read from the model's id ("us.anthropic.claude-...", an ARN that ends in one), or said by the quirk `family`. Claude and Nova take
everything; the models that only complete a text (Titan, Llama, Mistral, Command) take one text and sampling, in the template their makers document.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

from rxchat.errors import ConfigurationError
from rxchat.outgoing import anthropic
from rxchat.outgoing.addresses import endpoint
from rxchat.outgoing.bedrock_converse import converse_body, signed_request
from rxchat.outgoing.common import ModelCall, WireRequest, drop_none, merge_extra, refuse_options
from rxchat.prompt import Message, Role
from rxchat.response import TextPart

__all__ = ["FAMILIES", "build"]

NAME = "bedrock-invoke"
# The models that are invoked by this call do not take later versions there.
CLAUDE_VERSION = "bedrock-2023-05-31"


def build(call: ModelCall) -> WireRequest:
    """
    POST {base_url}/model/{model}/invoke-with-response-stream (or /invoke), to be signed for AWS unless a key is given, which goes as a bearer token.

    ConfigurationError for a model of no known family, and for everything but text where the family only completes one.
    """
    body = FAMILIES[_family(call)](call)
    verb = "invoke-with-response-stream" if call.request.stream else "invoke"
    url = endpoint(call.base_url, f"/model/{quote(call.model, safe='')}/{verb}")
    return signed_request(call, url, merge_extra(body, call.request.extra))


def _family(call: ModelCall) -> str:
    said = call.options.get("family")
    found = said or next((family for mark, family in MARKS.items() if re.search(rf"(^|[./:]){mark}", call.model)), None)
    if found not in FAMILIES:
        raise ConfigurationError(f"{NAME} knows no body for {call.model}; the option family is one of {', '.join(FAMILIES)}")
    return str(found)


def _claude(call: ModelCall) -> dict[str, Any]:
    return anthropic.message_body(call, NAME) | {"anthropic_version": CLAUDE_VERSION}


def _nova(call: ModelCall) -> dict[str, Any]:
    refuse_options(call, f"{NAME} for Nova", "reasoning_effort", "reasoning_budget", "response_format")
    body: dict[str, Any] = {"schemaVersion": "messages-v1"} | converse_body(call, NAME)
    more = body.pop("additionalModelRequestFields", {})
    if "top_k" in more:
        body["inferenceConfig"] = body.get("inferenceConfig", {}) | {"topK": more["top_k"]}
    return body


def _titan(call: ModelCall) -> dict[str, Any]:
    _only_text(call, "Titan", "top_k")
    config = drop_none(
        maxTokenCount=call.request.max_tokens,
        temperature=call.request.temperature,
        topP=call.request.top_p,
        stopSequences=list(call.request.stop) or None,
    )
    words = {Role.USER: "User: ", Role.ASSISTANT: "Bot: ", Role.SYSTEM: ""}
    text = "\n".join(f"{words[role]}{text}" for role, text in _spoken(call, "Titan"))
    return {"inputText": f"{text}\nBot:"} | ({"textGenerationConfig": config} if config else {})


def _llama(call: ModelCall) -> dict[str, Any]:
    _only_text(call, "Llama", "top_k", "stop")
    turns = "".join(f"<|start_header_id|>{role.value}<|end_header_id|>\n\n{text}<|eot_id|>" for role, text in _spoken(call, "Llama"))
    prompt = f"<|begin_of_text|>{turns}<|start_header_id|>assistant<|end_header_id|>\n\n"
    return {"prompt": prompt} | drop_none(max_gen_len=call.request.max_tokens, temperature=call.request.temperature, top_p=call.request.top_p)


def _mistral(call: ModelCall) -> dict[str, Any]:
    _only_text(call, "Mistral")
    prompt, instructions = "<s>", ""
    for role, text in _spoken(call, "Mistral"):
        if role is Role.ASSISTANT:
            prompt += f" {text}</s>"
        elif role is Role.USER:
            prompt += f"[INST] {instructions}{text} [/INST]"
            instructions = ""
        else:
            instructions += f"{text}\n\n"
    if instructions:
        raise ConfigurationError(f"{NAME} for Mistral puts system texts into the user's next message, and there is none")
    return {"prompt": prompt} | drop_none(
        max_tokens=call.request.max_tokens,
        stop=list(call.request.stop) or None,
        temperature=call.request.temperature,
        top_p=call.request.top_p,
        top_k=call.request.top_k,
    )


def _cohere(call: ModelCall) -> dict[str, Any]:
    _only_text(call, "Command")
    words = {Role.USER: "USER", Role.ASSISTANT: "CHATBOT", Role.SYSTEM: "SYSTEM"}
    *before, (role, text) = _spoken(call, "Command")
    if role is not Role.USER:
        raise ConfigurationError(f"{NAME} for Command wants the user to speak last")
    history = [{"role": words[who], "message": what} for who, what in before]
    return {"message": text} | drop_none(
        chat_history=history or None,
        max_tokens=call.request.max_tokens,
        temperature=call.request.temperature,
        p=call.request.top_p,
        k=call.request.top_k,
        stop_sequences=list(call.request.stop) or None,
    )


def _only_text(call: ModelCall, family: str, *unknown: str) -> None:
    never = ("seed", "presence_penalty", "frequency_penalty", "reasoning_effort", "reasoning_budget", "tool_choice", "parallel_tool_calls")
    refuse_options(call, f"{NAME} for {family}", *never, "response_format", *unknown)
    if call.tools:
        raise ConfigurationError(f"{NAME} for {family} takes no tools; use bedrock-converse")


def _spoken(call: ModelCall, family: str) -> list[tuple[Role, str]]:
    return [(message.role, _text(message, family)) for message in call.messages]


def _text(message: Message, family: str) -> str:
    if message.role is Role.TOOL or not all(isinstance(part, TextPart) for part in message.parts):
        raise ConfigurationError(f"{NAME} for {family} takes only text; use bedrock-converse")
    return message.text


FAMILIES: Mapping[str, Callable[[ModelCall], dict[str, Any]]] = {
    "anthropic": _claude,
    "nova": _nova,
    "titan": _titan,
    "llama": _llama,
    "mistral": _mistral,
    "cohere": _cohere,
}
MARKS: Mapping[str, str] = {
    r"anthropic\.": "anthropic",
    r"amazon\.nova": "nova",
    r"amazon\.titan-text": "titan",
    r"meta\.llama": "llama",
    r"mistral\.": "mistral",
    r"cohere\.command": "cohere",
}
