"""
Turns and answers in few words.
"""

from __future__ import annotations

from rxchat.errors import Verdict
from rxchat.prompt import Message
from rxchat.response import ChatResponse, FinishReason, Part, TextPart, ToolCall, Usage
from rxchat.stores import History, Round, Turn

__all__ = ["answered", "call", "said", "turn"]


def answered(*parts: str | Part, finish: FinishReason = FinishReason.STOP, verdict: Verdict = Verdict.COMPLETE) -> ChatResponse:
    """
    A whole answer of these parts.
    """
    made = tuple(TextPart(part) if isinstance(part, str) else part for part in parts)
    return ChatResponse(made, finish, usage=Usage(input_tokens=3, output_tokens=2), verdict=verdict)


def turn(request_id: str, question: str = "", answer: str = "") -> Turn:
    """
    One question and its answer.
    """
    return Turn(request_id, (Round((Message.user(question or f"question {request_id}"),), answered(answer or f"answer {request_id}")),), 1.5)


def call(call_id: str = "call_1", name: str = "weather") -> ToolCall:
    """
    A whole call of a tool.
    """
    return ToolCall(call_id, name, "{}", {}, complete=True, index=0)


def said(history: History) -> list[str]:
    """
    The request ids of a history, in order.
    """
    return [item.request_id for item in history.turns]
