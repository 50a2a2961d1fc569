"""
Recorded bodies: read from files or standard input, cut into reads.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence

import click

__all__ = ["bodies", "cuts", "key_values"]

STDIN = "-"


def bodies(files: Sequence[str]) -> Iterator[tuple[str, bytes | None]]:
    """
    Each file with its content; None where it cannot be read, which has been said on standard error. `-` is standard input.
    """
    for name in files:
        try:
            yield name, _read(name)
        except OSError as error:
            print(f"rxchat: cannot read {name}: {error.strerror or error}", file=sys.stderr)
            yield name, None


def _read(name: str) -> bytes:
    if name == STDIN:
        return sys.stdin.buffer.read()
    with open(name, "rb") as file:
        return file.read()


def cuts(body: bytes, size: int) -> Iterator[bytes]:
    """
    The body in reads of `size` bytes; 0 = in one.
    """
    if size <= 0 or size >= len(body):
        if body:
            yield body
        return
    for start in range(0, len(body), size):
        yield body[start : start + size]


def key_values(pairs: Sequence[str]) -> Mapping[str, str]:
    """
    `KEY=VALUE` arguments as a mapping.
    """
    read: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not key or not equals:
            raise click.UsageError(f"{pair!r} is not KEY=VALUE")
        read[key] = value
    return read
