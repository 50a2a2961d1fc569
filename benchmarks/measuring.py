"""
What all measurements share: CPU time, memory, medians, and the words for the machine.
"""

from __future__ import annotations

import gc
import importlib.util
import math
import os
import platform
import resource
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from statistics import linear_regression, median
from typing import Any

__all__ = ["Growth", "absent", "cpu", "cpu_async", "exponent", "machine", "resident", "spread", "unwritable"]

MiB = 2**20


# --- time -----------------------------------------------------------------------------------------------------------------------------------------


def cpu(work: Callable[[], object]) -> float:
    """
    CPU seconds of the whole process, all threads, system time included; what earlier runs left is collected before.
    """
    gc.collect()
    begin = time.process_time()
    work()
    return time.process_time() - begin


async def cpu_async(work: Callable[[], Awaitable[object]]) -> float:
    """
    The same for a coroutine.
    """
    gc.collect()
    begin = time.process_time()
    await work()
    return time.process_time() - begin


def spread(values: Sequence[float]) -> dict[str, float]:
    """
    Median, lowest and highest.
    """
    return {"median": median(values), "lowest": min(values), "highest": max(values)}


def exponent(sizes: Iterable[float], costs: Iterable[float]) -> float:
    """
    How a cost grows with a size: the slope of its logarithm, 1 where it is linear.
    """
    return linear_regression([math.log(size) for size in sizes], [math.log(cost) for cost in costs]).slope


# --- memory ---------------------------------------------------------------------------------------------------------------------------------------


def _status(key: str) -> float | None:
    """
    A line of /proc/self/status, in MiB; None where there is no such file.
    """
    try:
        with open("/proc/self/status", encoding="ascii") as file:
            return next((int(line.split()[1]) / 1024 for line in file if line.startswith(key)), None)
    except OSError:
        return None


def _highest() -> float:
    unit = 1 if sys.platform == "darwin" else 1024
    return _status("VmHWM:") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / MiB


def resident() -> float:
    """
    MiB of memory the process holds now; where the system does not say, the most it ever held.
    """
    return _status("VmRSS:") or _highest()


class Growth:
    """
    What the process grew by since this was made: `peak()` at most, `rest()` now; MiB of resident memory.

    On Linux the system's own mark of the highest is set back first. Elsewhere a peak below an earlier one reads as 0.
    """

    def __init__(self) -> None:
        gc.collect()
        try:
            with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
                file.write("5")
        except OSError:
            pass
        self._before = resident()

    def peak(self) -> float:
        return max(0.0, _highest() - self._before)

    def rest(self) -> float:
        gc.collect()
        return resident() - self._before


# --- where it ran ---------------------------------------------------------------------------------------------------------------------------------


def load() -> float:
    """
    How many processes wanted a core during the last minute.
    """
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else math.nan


def machine() -> str:
    """
    What it ran on.
    """
    return f"{platform.python_implementation()} {platform.python_version()}, {os.cpu_count()} cores, load {load():.1f}"


def unwritable(path: str) -> str | None:
    """
    Why that file cannot be written, None if it can; nothing is changed by asking.
    """
    there = os.path.lexists(path)
    try:
        with open(path, "ab"):
            pass
    except OSError as error:
        return f"cannot write {path}: {error.strerror}"
    if not there:
        os.remove(path)
    return None


def absent(modules: Iterable[str]) -> list[str]:
    """
    Which of these cannot be imported.
    """
    return [name for name in modules if not _found(name)]


def _found(name: str) -> Any:
    try:
        return importlib.util.find_spec(name)
    except ModuleNotFoundError:
        return None
