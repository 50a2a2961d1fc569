"""
How an answer is shown while it comes: on a terminal, as plain text, or as JSON lines.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TextIO

import attrs
from rich.text import Text

from rxchat.cli.screen import console, printable
from rxchat.events import (
    ChatEvent,
    Citation,
    ContentFilter,
    MediaDone,
    Phase,
    RefusalDelta,
    SearchResult,
    ServerToolStart,
    TextDelta,
    ThinkingDelta,
    ToolCallEnd,
    ToolResult,
)
from rxchat.response import ChatResponse

__all__ = ["JsonLines", "LiveView", "PlainText", "Stopwatch", "View"]


@attrs.define
class Stopwatch:
    """
    When the request went out, when the first fragment came, and the last. Seconds of a clock that never goes back.
    """

    clock: Callable[[], float] = time.monotonic
    began: float = attrs.field(init=False)
    first: float | None = None
    last: float | None = None

    def __attrs_post_init__(self) -> None:
        self.began = self.clock()

    def note(self, event: ChatEvent) -> None:
        """
        Look at an event that has just come.
        """
        if event.phase is Phase.DELTA:
            self.last = self.clock()
            self.first = self.first or self.last

    def facts(self, output_tokens: int | None) -> list[str]:
        """
        What it says: time to the first fragment, tokens a second from there on.
        """
        if self.first is None or self.last is None:
            return []
        told = [f"first token after {self.first - self.began:.2f} s"]
        if output_tokens and self.last > self.first:
            told.append(f"{(output_tokens - 1) / (self.last - self.first):.1f} tokens/s")
        return told


class View:
    """
    What every view can do: take events, and close.
    """

    def show(self, event: ChatEvent) -> None:
        """
        Show one event.
        """
        raise NotImplementedError

    def close(self, response: ChatResponse, stopwatch: Stopwatch) -> None:
        """
        The answer has ended, however it did.
        """


class JsonLines(View):
    """
    Every event as a line of JSON.
    """

    def show(self, event: ChatEvent) -> None:
        from rxchat.serialize import dumps

        print(dumps(event), flush=True)


class PlainText(View):
    """
    The text and nothing else, for pipes and files.
    """

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = out or sys.stdout
        self._ended = True

    def show(self, event: ChatEvent) -> None:
        if isinstance(event, TextDelta) and event.choice == 0:
            self._out.write(event.text)
            self._out.flush()
            self._ended = event.text.endswith("\n")

    def close(self, response: ChatResponse, stopwatch: Stopwatch) -> None:
        if not self._ended:
            self._out.write("\n")


class LiveView(View):
    """
    A terminal: text as it comes, thinking dimmed, everything else on lines of its own, sources and a footer below.
    """

    def __init__(self) -> None:
        self._console = console()
        self._inside: type[ChatEvent] | None = None  # the kind of text the cursor stands in
        self._sources: dict[str, None] = {}

    def show(self, event: ChatEvent) -> None:
        draw = self.DRAW.get(type(event))
        if draw is not None and getattr(event, "choice", 0) == 0:
            draw(self, event)

    def close(self, response: ChatResponse, stopwatch: Stopwatch) -> None:
        self._leave()
        for number, source in enumerate(self._sources, 1):
            self._line(f"[{number}] {source}", "blue")
        self._line(footer(response, stopwatch), "dim")

    def _running(self, event: Any) -> None:
        """
        A fragment of a running text; another kind of text begins on a new line.
        """
        kind = type(event)
        if self._inside not in (None, kind):
            self._leave()
        self._inside = kind
        self._console.print(Text(printable(event.text)), style=self.STYLES[kind], end="", soft_wrap=True)

    def _leave(self) -> None:
        if self._inside is not None:
            self._inside = None
            self._console.print()

    def _line(self, text: str, style: str) -> None:
        self._leave()
        self._console.print(Text(printable(text)), style=style, soft_wrap=True)

    def _call(self, event: ToolCallEnd) -> None:
        call = event.tool_call
        unfinished = "" if call.complete else " (unfinished)"
        self._line(f"→ {call.name}({call.arguments_text}){unfinished}", "cyan")

    def _result(self, event: ToolResult) -> None:
        self._line(f"← {event.result}", "red" if event.is_error else "cyan")

    def _server_tool(self, event: ServerToolStart) -> None:
        self._line(f"→ {event.name or event.kind} (run by the provider)", "cyan")

    def _media(self, event: MediaDone) -> None:
        where = event.url or f"{len(event.data or '') * 3 // 4} bytes"
        self._line(f"[{' '.join(filter(None, (event.kind, event.mime, where)))}]", "magenta")

    def _filter(self, event: ContentFilter) -> None:
        word, style = ("held back", "red") if event.blocked else ("marked", "dim")
        self._line(f"[{word} by the provider: {event.category}]", style)

    def _source(self, event: Citation | SearchResult) -> None:
        self._sources[" ".join(filter(None, (event.title, event.url or getattr(event, "file", None)))) or "a source without a name"] = None

    STYLES: ClassVar[Mapping[type, str]] = {TextDelta: "", ThinkingDelta: "dim italic", RefusalDelta: "red"}
    DRAW: ClassVar[Mapping[type, Callable[[LiveView, Any], None]]] = {}


LiveView.DRAW = {
    TextDelta: LiveView._running,
    ThinkingDelta: LiveView._running,
    RefusalDelta: LiveView._running,
    ToolCallEnd: LiveView._call,
    ToolResult: LiveView._result,
    ServerToolStart: LiveView._server_tool,
    MediaDone: LiveView._media,
    ContentFilter: LiveView._filter,
    Citation: LiveView._source,
    SearchResult: LiveView._source,
}


def footer(response: ChatResponse, stopwatch: Stopwatch) -> str:
    """
    Verdict, finish reason, tokens and times in one line; what is not known is left out.
    """
    usage = response.usage
    counts = [
        f"{count} tokens {way}" for way, count in (("in", usage and usage.input_tokens), ("out", usage and usage.output_tokens)) if count is not None
    ]
    finish = [response.finish_reason_raw] if response.finish_reason_raw else []
    facts = [str(response.verdict or "not ended"), *finish, *counts, *stopwatch.facts(usage.output_tokens if usage else None)]
    return " · ".join(facts)
