"""
The progress of the one download `ask` may need.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rxchat.cli.screen import console

__all__ = ["fetch_bar"]


@contextmanager
def fetch_bar() -> Iterator[Callable[[int, int], None]]:
    """
    A progress callback: a bar on a terminal, else one line; nothing at all if nothing has to be fetched.
    """
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = (TextColumn("fetching the model, once"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task("", total=None, visible=False)
        begun = False

        def progress(done: int, total: int) -> None:
            nonlocal begun
            if not begun and bar.disable:
                print(f"fetching the model, once ({total // 1_000_000} MB)", file=sys.stderr)
            begun = True
            bar.update(task, completed=done, total=total, visible=True)

        yield progress
