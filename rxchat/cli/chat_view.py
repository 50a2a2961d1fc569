"""
How the answers of a chat are shown: as `ask` shows them, calls and results in one line each, thinking only if it is wanted.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from rxchat.cli.live import LiveView, PlainText, Stopwatch, View
from rxchat.events import ChatEvent, StepEnd, ThinkingDelta, ToolCallEnd, ToolResult
from rxchat.response import ChatResponse, MediaPart, TextPart, ToolCall
from rxchat.strictjson import dumps

__all__ = ["ChatView", "HeldView", "PlainChat", "call_in_full", "one_line"]

WIDTH = 160


class ChatView(LiveView):
    """
    A terminal in a chat. Without `thinking` a single word says that the model thinks.
    """

    def __init__(self, thinking: bool = False) -> None:
        super().__init__()
        self._thinking = thinking
        self._said = False

    def show(self, event: ChatEvent) -> None:
        if self._thinking or not isinstance(event, ThinkingDelta):
            super().show(event)
        elif not self._said:
            self._said = True
            self._line("thinking ...", "dim italic")

    def close(self, response: ChatResponse, stopwatch: Stopwatch) -> None:
        """
        The sources; what is wrong with the answer, if anything is, is said elsewhere.
        """
        self._leave()
        for number, source in enumerate(self._sources, 1):
            self._line(f"[{number}] {source}", "blue")

    def _called(self, event: ToolCallEnd) -> None:
        call = event.tool_call
        unfinished = "" if call.complete else " (unfinished)"
        self._line(one_line(f"→ {call_in_full(call)}{unfinished}"), "cyan")

    def _answered(self, event: ToolResult) -> None:
        self._line(one_line(f"← {result_text(event.result)}"), "red" if event.is_error else "cyan")

    DRAW: ClassVar[Mapping[type, Callable[[Any, Any], None]]] = {}


ChatView.DRAW = {**LiveView.DRAW, ToolCallEnd: ChatView._called, ToolResult: ChatView._answered}


class PlainChat(PlainText):
    """
    The text alone, that of each step on lines of its own.
    """

    def show(self, event: ChatEvent) -> None:
        super().show(event)
        if isinstance(event, StepEnd) and not self._ended:
            self._out.write("\n")
            self._ended = True


class HeldView(View):
    """
    A view that can be held while somebody is asked a question: what comes in the meantime is shown afterwards.
    """

    def __init__(self, view: View) -> None:
        self._view = view
        self._waiting: list[ChatEvent] | None = None

    def show(self, event: ChatEvent) -> None:
        if self._waiting is None:
            self._view.show(event)
        else:
            self._waiting.append(event)

    def close(self, response: ChatResponse, stopwatch: Stopwatch) -> None:
        self.release()
        self._view.close(response, stopwatch)

    def hold(self) -> None:
        """
        Show nothing from now on.
        """
        self._waiting = self._waiting or []

    def release(self) -> None:
        """
        Show what has come, and go on.
        """
        waiting, self._waiting = self._waiting or (), None
        for event in waiting:
            self._view.show(event)


def one_line(text: str) -> str:
    """
    The text in one line, shortened.
    """
    line = " ".join(text.split())
    return line if len(line) <= WIDTH else f"{line[: WIDTH - 1]}…"


def result_text(result: Any) -> str:
    """
    What a tool answered, for reading.
    """
    if isinstance(result, str):
        return result
    if isinstance(result, (list, tuple)) and any(isinstance(part, (TextPart, MediaPart)) for part in result):
        return " ".join(part.text if isinstance(part, TextPart) else f"[{part.kind} {part.mime or ''}]" for part in result)
    try:
        return dumps(result)
    except (TypeError, ValueError):
        return repr(result)


def call_in_full(call: ToolCall) -> str:
    """
    A call for somebody who has to allow it: all of it, and nothing in it that changes how it looks.
    """
    return "".join(character if _plain(character) else f"\\u{ord(character):04x}" for character in f"{call.name}({call.arguments_text})")


def _plain(character: str) -> bool:
    """
    Whether a character stands for itself: no control, no mark of direction, no invisible one, no end of line.
    """
    return unicodedata.category(character) not in ("Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp")
