"""
What a docstring says, in the three usual styles: Google's `Args:`, numpy's underlined `Parameters`, and `:param name:`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

__all__ = ["parameter_docs", "summary"]

_GOOGLE_HEADS = frozenset({"Args:", "Arguments:", "Parameters:", "Params:", "Keyword Args:", "Keyword Arguments:", "Attributes:"})
_NUMPY_HEADS = frozenset({"Parameters", "Other Parameters", "Attributes"})
_GOOGLE_ENTRY = re.compile(r"(\w+)\s*(?:\([^)]*\))?\s*:(?:\s+(.*))?$")
_NUMPY_ENTRY = re.compile(r"(\w+(?:\s*,\s*\w+)*)\s*(?::.*)?$")
_FIELD = re.compile(r":(?:param|parameter|arg|argument|key|keyword|ivar)\s+(?:[^:]*\s)?(\w+)\s*:\s*(.*)$")
_UNDERLINE = re.compile(r"-{3,}$")


def summary(docs: str) -> str:
    """
    The first paragraph, on one line; none if the docstring begins with a section.
    """
    first = docs.strip().split("\n\n")[0]
    lines = [line.strip() for line in first.splitlines()]
    begins = lines[0] in _GOOGLE_HEADS if lines else False
    return "" if begins or first.startswith(":") or _is_numpy_head(lines, 0) else " ".join(_until_fields(lines)).strip()


def parameter_docs(docs: str) -> dict[str, str]:
    """
    Descriptions of parameters (or attributes) by name; continued lines are joined by a space.
    """
    lines = docs.expandtabs().splitlines()
    found = [*_google(lines), *_numpy(lines), *_fields(lines)]
    return {name: text for name, text in found if text}


def _until_fields(lines: Sequence[str]) -> Iterator[str]:
    for line in lines:
        if _FIELD.match(line):
            return
        yield line


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _google(lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    for at, line in enumerate(lines):
        if line.strip() in _GOOGLE_HEADS:
            body = _deeper(lines[at + 1 :], _indent(line))
            for head, text in _entries(body):
                if found := _GOOGLE_ENTRY.match(head):
                    yield found[1], " ".join([found[2] or "", *text]).strip()


def _numpy(lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    for at, line in enumerate(lines):
        if _is_numpy_head(lines, at) and line.strip() in _NUMPY_HEADS:
            for head, text in _entries(_section(lines[at + 2 :], _indent(line))):
                if found := _NUMPY_ENTRY.match(head):
                    yield from ((name.strip(), " ".join(text)) for name in found[1].split(","))


def _fields(lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    for at, line in enumerate(lines):
        if found := _FIELD.match(line.strip()):
            more = (text.strip() for text in _deeper(lines[at + 1 :], _indent(line)))
            yield found[1], " ".join([found[2], *more]).strip()


def _is_numpy_head(lines: Sequence[str], at: int) -> bool:
    return at + 1 < len(lines) and bool(lines[at].strip()) and bool(_UNDERLINE.match(lines[at + 1].strip()))


def _deeper(lines: Sequence[str], indent: int) -> list[str]:
    """
    The lines indented more than that, up to the first that is not; blank ones are left out.
    """
    body: list[str] = []
    for line in lines:
        if line.strip() and _indent(line) <= indent:
            break
        body += [line] if line.strip() else []
    return body


def _section(lines: Sequence[str], indent: int) -> list[str]:
    """
    The lines of a numpy section: up to the next underlined head, or to a line further out.
    """
    body: list[str] = []
    for at, line in enumerate(lines):
        if _is_numpy_head(lines, at) or (line.strip() and _indent(line) < indent):
            break
        body += [line] if line.strip() else []
    return body


def _entries(body: Sequence[str]) -> list[tuple[str, list[str]]]:
    """
    Lines at the first one's indent, each with the deeper ones below it.
    """
    entries: list[tuple[str, list[str]]] = []
    for line in body:
        if not entries or _indent(line) <= _indent(body[0]):
            entries.append((line.strip(), []))
        else:
            entries[-1][1].append(line.strip())
    return entries
