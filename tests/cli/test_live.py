"""
The views of an answer: terminal, plain text, JSON lines; and the sentences about what went wrong.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable

import pytest

from rxchat.cli.live import JsonLines, LiveView, PlainText, Stopwatch, View, footer
from rxchat.cli.sentences import finish_sentence, sentence
from rxchat.errors import (
    ConfigurationError,
    ConnectError,
    ContentTypeError,
    DialectError,
    HTTPStatusError,
    IncompleteStreamError,
    LimitExceeded,
    ProviderError,
    RxchatError,
    Verdict,
)
from rxchat.events import (
    ChatEvent,
    Citation,
    ContentFilter,
    MediaDone,
    RefusalDelta,
    ResponseStart,
    SearchResult,
    ServerToolStart,
    TextDelta,
    TextStart,
    ThinkingDelta,
    ToolCallEnd,
    ToolResult,
)
from rxchat.response import ChatResponse, FinishReason, ToolCall, Usage

WHOLE = ChatResponse(
    finish_reason=FinishReason.STOP, finish_reason_raw="stop", verdict=Verdict.COMPLETE, usage=Usage(input_tokens=7, output_tokens=11)
)


def ticking(*times: float) -> Stopwatch:
    """
    A stopwatch whose clock says these times.
    """
    said = iter(times)
    return Stopwatch(lambda: next(said))


def shown(capsys: pytest.CaptureFixture[str], view: View, events: Iterable[ChatEvent], response: ChatResponse = WHOLE) -> list[str]:
    """
    What a view prints, line by line.
    """
    for event in events:
        view.show(event)
    view.close(response, ticking(0.0))
    return [line.rstrip() for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize(
    "events, lines",
    [
        ([TextStart(), TextDelta("Hel"), TextDelta("lo.")], ["Hello."]),
        ([ThinkingDelta("Hm"), ThinkingDelta("..."), TextDelta("Hello.")], ["Hm...", "Hello."]),
        ([TextDelta("one\ntwo\n"), ThinkingDelta("Hm")], ["one", "two", "", "Hm"]),
        ([TextDelta("one"), TextDelta("other", choice=1)], ["one"]),
        ([RefusalDelta("No.")], ["No."]),
        ([TextDelta("a\x1b[2Jb\x07\x7f\x9bc")], ["a␛[2Jb␇␡\ufffdc"]),
        ([TextDelta("[bold]no markup[/bold] :smile:")], ["[bold]no markup[/bold] :smile:"]),
        ([TextDelta("See."), ToolCallEnd(ToolCall("a", "f", '{"x":1}', complete=True))], ["See.", '→ f({"x":1})']),
        ([ToolCallEnd(ToolCall("a", "f", '{"x"'))], ['→ f({"x") (unfinished)']),
        ([ToolResult("a", "sunny"), ToolResult("a", "broken", is_error=True)], ["← sunny", "← broken"]),
        (
            [ServerToolStart("web_search_call"), ServerToolStart("x", name="search")],
            ["→ web_search_call (run by the provider)", "→ search (run by the provider)"],
        ),
        (
            [MediaDone("image", "image/png", data="AAAA"), MediaDone("audio", url="https://example.com/a")],
            ["[image image/png 3 bytes]", "[audio https://example.com/a]"],
        ),
        (
            [ContentFilter("hate", blocked=True), ContentFilter("jailbreak")],
            ["[held back by the provider: hate]", "[marked by the provider: jailbreak]"],
        ),
        (
            [TextDelta("So [1]."), Citation(url="u", title="T"), SearchResult(url="v"), Citation(file="f"), Citation(url="u", title="T"), Citation()],
            ["So [1].", "[1] T u", "[2] v", "[3] f", "[4] a source without a name"],
        ),
        ([ResponseStart("r")], []),
    ],
)
def test_a_terminal_shows_everything_in_its_place(capsys: pytest.CaptureFixture[str], events: list[ChatEvent], lines: list[str]) -> None:
    """
    Running text, other things on lines of their own, sources and the footer below; nothing steers the terminal.
    """
    assert shown(capsys, LiveView(), events) == [*lines, "COMPLETE · stop · 7 tokens in · 11 tokens out"]


def test_thinking_is_dimmed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """
    On a terminal that has colours.
    """
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    view = LiveView()
    view.show(ThinkingDelta("Hm"))
    view.show(TextDelta("Hello"))
    assert capsys.readouterr().out == "\x1b[2;3mHm\x1b[0m\nHello"


@pytest.mark.parametrize(
    "events, text",
    [
        ([ThinkingDelta("Hm"), TextDelta("Hel"), TextDelta("lo"), TextDelta("x", choice=1), Citation(url="u")], "Hello\n"),
        ([TextDelta("Hello\n")], "Hello\n"),
        ([], ""),
    ],
)
def test_plain_text_is_the_text_and_nothing_else(events: list[ChatEvent], text: str) -> None:
    """
    With a line end behind it.
    """
    out = io.StringIO()
    view = PlainText(out)
    for event in events:
        view.show(event)
    view.close(WHOLE, ticking(0.0))
    assert out.getvalue() == text


def test_json_lines_are_the_events(capsys: pytest.CaptureFixture[str]) -> None:
    """
    One a line.
    """
    lines = shown(capsys, JsonLines(), [TextDelta("Hel"), Citation(url="u")])
    assert [json.loads(line) for line in lines] == [{"v": 1, "type": "TEXT_DELTA", "text": "Hel"}, {"v": 1, "type": "CITATION", "url": "u"}]


@pytest.mark.parametrize(
    "times, deltas, tokens, expected",
    [
        ((10.0,), 0, 5, []),
        ((10.0, 10.5), 1, 5, ["first token after 0.50 s"]),
        ((10.0, 10.5, 12.5), 2, 21, ["first token after 0.50 s", "10.0 tokens/s"]),
        ((10.0, 10.5, 12.5), 2, None, ["first token after 0.50 s"]),
    ],
)
def test_the_stopwatch(times: tuple[float, ...], deltas: int, tokens: int | None, expected: list[str]) -> None:
    """
    Time to the first fragment, rate from there on; nothing it does not know.
    """
    stopwatch = ticking(*times)
    stopwatch.note(ResponseStart("r"))
    for _ in range(deltas):
        stopwatch.note(TextDelta("x"))
    assert stopwatch.facts(tokens) == expected


def test_a_footer_leaves_out_what_is_not_known() -> None:
    """
    No "unknown", no "None".
    """
    assert footer(ChatResponse(), ticking(0.0)) == "not ended"
    assert footer(ChatResponse(verdict=Verdict.CANCELLED, usage=Usage(input_tokens=0)), ticking(0.0)) == "CANCELLED · 0 tokens in"


@pytest.mark.parametrize(
    "error, words",
    [
        (HTTPStatusError("Incorrect API key", status=401), "the provider refused the key (HTTP 401): Incorrect API key"),
        (HTTPStatusError("no model m", status=404), "the provider has no such model, or the address is wrong (HTTP 404): no model m"),
        (HTTPStatusError("later", status=429, retry_after=7.0), "the provider asks to slow down (HTTP 429): later; it may be asked again in 7 s"),
        (HTTPStatusError("HTTP 500", status=500), "the provider refused (HTTP 500): HTTP 500"),
        (
            ContentTypeError("the response is text/html"),
            "the server does not answer like a provider, is the address right? the response is text/html",
        ),
        (IncompleteStreamError("no end", 9), "the answer broke off before its end: no end (at byte 9)"),
        (ProviderError("overloaded", code="busy", status=529), "the provider reported a failure: overloaded (status 529, code busy)"),
        (ProviderError("overloaded"), "the provider reported a failure: overloaded"),
        (DialectError("no choice", 3), "the answer is not what its protocol promises (PROTOCOL): no choice (at byte 3)"),
        (LimitExceeded("line", 10, 4), "the limit line=10 was passed (at byte 4)"),
        (ConnectError("cannot connect to h"), "cannot connect to h"),
        (ConfigurationError("no such thing"), "no such thing"),
    ],
)
def test_every_failure_is_one_sentence(error: RxchatError, words: str) -> None:
    """
    What went wrong, in the words of a person.
    """
    assert sentence(error) == words


@pytest.mark.parametrize(
    "reason, raw, words",
    [
        (FinishReason.LENGTH, "max_tokens", "the answer was cut off at its limit of tokens (finish reason max_tokens)"),
        (FinishReason.REFUSAL, None, "the model refused to answer (finish reason refusal)"),
        (FinishReason.OTHER, "odd", "the answer ended, but not as an answer (finish reason odd)"),
    ],
)
def test_every_incomplete_finish_is_one_sentence(reason: FinishReason, raw: str | None, words: str) -> None:
    """
    With the provider's own word.
    """
    assert finish_sentence(ChatResponse(finish_reason=reason, finish_reason_raw=raw)) == words
