"""
The 22 cases of a published study of streaming boundaries, built from their recipes, and more of the same kind.

Each is a body (or a behaviour of the server) and what must come of it in the profile strict_text: the status, what was shown, and whether it became history.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import attrs

from tests.loopback import Script, answer, hold, raw

__all__ = ["ANSWER", "CASES", "EXTRA", "Case"]

EVENT_STREAM = "text/event-stream"


def frame(text: str) -> bytes:
    """
    An event whose data is that JSON text, written as it is.
    """
    return f"data: {text}\n\n".encode()


def said(text: str) -> bytes:
    """
    A frame with a piece of the answer.
    """
    return frame(f'{{"choices":[{{"index":0,"delta":{{"content":{json.dumps(text, ensure_ascii=False)}}},"finish_reason":null}}]}}')


FIRST = "你好，"
ANSWER = "你好，Java 🌱"
FIN = frame('{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}')
DONE = frame("[DONE]")
HELLO = said(FIRST)
GOOD = HELLO + said("Java 🌱") + FIN + DONE
USAGE = frame('{"choices":[],"usage":{}}')


@attrs.frozen
class Case:
    """
    One exchange. `serve` makes the server's behaviour of the body; `sha256` are the first 12 digits of the body's published digest; `cancel` tells from the
    preview so far that the consumer leaves; `read_timeout` in seconds.
    """

    id: str
    body: bytes
    status: str
    preview: str = ""
    sha256: str = ""
    http_status: int = 200
    content_type: str = EVENT_STREAM
    serve: Callable[[Case], Script] = lambda case: answer(case.body, status=case.http_status, content_type=case.content_type)
    cancel: Callable[[str], bool] = lambda preview: False
    read_timeout: float = 10.0

    @property
    def history(self) -> int:
        """
        How many entries the history has afterwards: two before, two more for a whole answer.
        """
        return 4 if self.status == "COMPLETE" else 2


def stalled(case: Case) -> Script:
    """
    The body, then silence.
    """
    return hold(case.body) if case.body else hold()


def utf16_units(text: str) -> int:
    """
    The study's measure of a preview.
    """
    return len(text.encode("utf-16-le")) // 2


CASES: tuple[Case, ...] = (
    Case("one-byte", GOOD, "COMPLETE", ANSWER, "f4570815369d"),
    Case("seven-byte", GOOD, "COMPLETE", ANSWER, "f4570815369d"),
    Case("crlf", GOOD.replace(b"\n", b"\r\n"), "COMPLETE", ANSWER, "799a5372ad5e"),
    Case("bare-cr", GOOD.replace(b"\n", b"\r"), "COMPLETE", ANSWER, "8f1e30023b6d"),
    Case("multiline", GOOD.replace(b'data: {"choices":', b'data: {\ndata: "choices":'), "COMPLETE", ANSWER, "d5a777368a94"),
    Case(
        "bom-heartbeat",
        b"\xef\xbb\xbf: ping\n\nid: 5\n\n" + HELLO + said("Java 🌱") + FIN + USAGE + DONE,
        "COMPLETE",
        ANSWER,
        "0095fa634f25",
    ),
    Case("missing-done", HELLO + FIN, "INCOMPLETE_STREAM", FIRST, "35099b52750d"),
    Case("unterminated-done", HELLO + FIN + b"data: [DONE]", "INCOMPLETE_STREAM", FIRST, "6db2de8b8e38"),
    Case("done-without-finish", HELLO + DONE, "PROTOCOL", FIRST, "24d48c4d0b9f"),
    Case("after-finish", HELLO + FIN + said("extra") + DONE, "PROTOCOL", FIRST, "e05658661b86"),
    Case("tool-delta", frame('{"choices":[{"index":0,"delta":{"tool_calls":[]}}]}'), "PROTOCOL", "", "0432c9b644ca"),
    Case("length-finish", GOOD.replace(b'"stop"', b'"length"'), "INCOMPLETE_FINISH", ANSWER, "aefa4db6a787"),
    Case("provider-error", HELLO + frame('{"error":{"message":"fixture"}}'), "PROVIDER_ERROR", FIRST, "ebdc876f69e0"),
    Case("malformed-json", frame("{oops}"), "INVALID_JSON", "", "1b43a89b64c8"),
    Case("duplicate-json", frame('{"choices":[],"choices":[]}'), "INVALID_JSON", "", "edc723b3c814"),
    Case("invalid-utf8", b"\xc3\x28", "INVALID_UTF8", "", "eddf68639913"),
    Case("oversized-line", b"data: " + b"x" * 8200 + b"\n\n", "LIMIT", "", "cc62126136b3"),
    Case("oversized-output", said("a" * 4097) + FIN + DONE, "LIMIT", "", "0fdcf6805fbf"),
    Case("wrong-mime", GOOD, "CONTENT_TYPE", "", "f4570815369d", content_type="application/json"),
    Case("http-503", GOOD, "HTTP_STATUS", "", "f4570815369d", http_status=503),
    Case("cancel", GOOD, "CANCELLED", FIRST, "f4570815369d", cancel=lambda preview: utf16_units(preview) >= 3),
    Case("read-timeout", b"", "READ_TIMEOUT", "", "e3b0c44298fc", serve=stalled, read_timeout=0.1),
)


# --- more of the kind -----------------------------------------------------------------------------------------------------------------------------


def line_of(size: int) -> bytes:
    """
    A whole answer whose first line has exactly `size` bytes: its frame is padded by blanks.
    """
    text = b'data: {"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":null}]}'
    return text + b" " * (size - len(text)) + b"\n\n" + FIN + DONE


def event_of(size: int) -> bytes:
    """
    A whole answer whose first event has exactly `size` bytes of joined data, one line feed a line, in lines that are far from their own limit.
    """
    text = b'{"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":null}]}'
    lines = [text, b" " * 4000, b" " * (size - len(text) - 4000 - 3)]
    return b"".join(b"data: " + line + b"\n" for line in lines) + b"\n" + FIN + DONE


def total_of(size: int) -> bytes:
    """
    A whole answer of exactly `size` bytes: comments fill it up.
    """
    rest = said("x") + FIN + DONE
    comments = b": " + b"c" * 97 + b"\n"
    count, odd = divmod(size - len(rest) - 2, len(comments))
    return comments * count + b":" + b"c" * odd + b"\n" + rest


def events_of(count: int) -> bytes:
    """
    A whole answer of exactly `count` data events, the sentinel among them.
    """
    return said("x") * (count - 2) + FIN + DONE


def depth_of(containers: int) -> bytes:
    """
    A whole answer, before it a usage frame nested so many containers deep (the study's depth 16 counts edges: 17 containers pass).
    """
    inner = containers - 2
    return frame('{"choices":[],"usage":{"x":' + "[" * inner + "]" * inner + "}}") + said("x") + FIN + DONE


def output_of(size: int, letter: str = "a") -> bytes:
    """
    A whole answer of exactly `size` code points, in pieces.
    """
    return b"".join(said(letter * min(500, size - at)) for at in range(0, size, 500)) + FIN + DONE


def chunked(body: bytes) -> bytes:
    """
    A response with this body as one chunk, the last chunk missing.
    """
    return f"HTTP/1.1 200 OK\r\ncontent-type: {EVENT_STREAM}\r\ntransfer-encoding: chunked\r\n\r\n{len(body):x}\r\n".encode() + body + b"\r\n"


def cut_off(case: Case) -> Script:
    """
    The body in a chunk, then the connection is closed.
    """
    return raw(chunked(case.body))


def reset(case: Case) -> Script:
    """
    The body in a chunk, then the connection is reset.
    """
    return raw(chunked(case.body), reset=True)


def half_a_chunk(case: Case) -> Script:
    """
    The end comes in the middle of a chunk.
    """
    return raw(chunked(case.body)[:-20])


def busy(case: Case) -> Script:
    """
    A refusal that says when to come again.
    """
    return answer(case.body, status=429, content_type="application/json", headers={"retry-after": "7"})


def limit_cases(
    name: str, make: Callable[[int], bytes], limit: int, *, answer_of: Callable[[int], str], verdict: str = "LIMIT", shown: str = ""
) -> list[Case]:
    """
    One below the limit, at it, and one above.
    """
    below, at, above = limit - 1, limit, limit + 1
    return [
        Case(f"{name}-{below}", make(below), "COMPLETE", answer_of(below)),
        Case(f"{name}-{at}", make(at), "COMPLETE", answer_of(at)),
        Case(f"{name}-{above}", make(above), verdict, shown),
    ]


EXTRA: tuple[Case, ...] = (
    *limit_cases("line", line_of, 8192, answer_of=lambda size: "x"),
    *limit_cases("event", event_of, 8192, answer_of=lambda size: "x"),
    *limit_cases("total", total_of, 65_536, answer_of=lambda size: "x", shown="x"),
    *limit_cases("events", events_of, 256, answer_of=lambda count: "x" * (count - 2), shown="x" * 255),
    *limit_cases("output", output_of, 4096, answer_of=lambda size: "a" * size, shown="a" * 4000),
    *limit_cases("output-emoji", lambda size: output_of(size, "🌱"), 4096, answer_of=lambda size: "🌱" * size, shown="🌱" * 4000),
    *limit_cases("depth", depth_of, 17, answer_of=lambda depth: "x", verdict="INVALID_JSON"),
    Case("truncated-utf8", HELLO + b"data: \xe4\xbd", "INVALID_UTF8", FIRST),
    Case("bom-before-data", b"\xef\xbb\xbf" + GOOD, "COMPLETE", ANSWER),
    Case("empty-data", HELLO + b"data:\n\n" + FIN + DONE, "INVALID_JSON", FIRST),
    Case("data-without-colon", HELLO + b"data\n\n" + FIN + DONE, "INVALID_JSON", FIRST),
    Case("comments-without-end", (b":" + b"c" * 98 + b"\n") * 655 + b":" + b"c" * 36 + b"\n" + GOOD, "LIMIT"),
    Case("error-after-finish", HELLO + FIN + frame('{"error":{"message":"late"}}') + DONE, "PROVIDER_ERROR", FIRST),
    Case("second-finish", HELLO + FIN + FIN + DONE, "PROTOCOL", FIRST),
    Case("empty-answer", said("") + FIN + DONE, "PROTOCOL"),
    Case("bytes-after-done", GOOD + b"\xff\xfe{oops", "COMPLETE", ANSWER),
    Case("reset-before-done", HELLO + FIN, "CONNECTION_LOST", FIRST, serve=reset),
    Case("no-last-chunk", HELLO + FIN, "CONNECTION_LOST", FIRST, serve=cut_off),
    Case("cut-chunk", HELLO + FIN, "CONNECTION_LOST", FIRST, serve=half_a_chunk),
    Case("json-error-body", b'{"error":{"message":"no"}}', "CONTENT_TYPE", content_type="application/json"),
    Case("busy", b'{"error":{"message":"slow down"}}', "HTTP_STATUS", serve=busy, http_status=429),
    Case("timeout-before-done", HELLO + FIN, "READ_TIMEOUT", FIRST, serve=stalled, read_timeout=0.1),
)
