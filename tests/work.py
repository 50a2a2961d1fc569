"""
What a piece of work costs, counted instead of timed.
"""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Callable
from types import FrameType
from typing import Any

__all__ = ["opcodes", "peak"]


def opcodes(work: Callable[[], Any]) -> int:
    """
    How many byte code instructions it takes.
    """
    count = 0

    def trace(frame: FrameType, what: str, argument: object) -> Any:
        nonlocal count
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        count += what == "opcode"
        return trace

    before = sys.gettrace()  # the coverage of the suite
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def peak(work: Callable[[], Any]) -> int:
    """
    How many bytes it has at most at one time beyond what was there before.
    """
    traced = tracemalloc.is_tracing()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        work()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        if not traced:
            tracemalloc.stop()
