"""
The throughput table as a picture: bars on a logarithmic scale, one panel a workload. Needs matplotlib.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

__all__ = ["FORMATS", "bars", "draw"]

FORMATS = (".svg", ".png", ".pdf")


def bars(table: Mapping[str, Any], workload: str) -> list[tuple[str, float]]:
    """
    Who was measured on that workload, and at which multiple of L1; the dearest first, as a chart is filled from below.
    """
    found = [
        (name, row["cells"][workload]["ratio"]["median"])
        for name, row in table.items()
        if name != "L1" and "ratio" in row.get("cells", {}).get(workload, {})
    ]
    return sorted(found, key=lambda bar: -bar[1])


def draw(table: Mapping[str, Any], workloads: Sequence[str], path: str) -> None:
    """
    Write an SVG, PNG or PDF, as the name of the file says.
    """
    matplotlib: Any = import_module("matplotlib")
    matplotlib.use("Agg")
    pyplot: Any = import_module("matplotlib.pyplot")
    panels = [(name, bars(table, name)) for name in workloads if bars(table, name)]
    if not panels:
        raise SystemExit("there is nothing to draw: the table was not measured")
    heights = [len(rows) + 2 for _, rows in panels]
    figure, axes = pyplot.subplots(len(panels), 1, figsize=(9, 0.28 * sum(heights)), squeeze=False, gridspec_kw={"height_ratios": heights})
    for axis, (name, rows) in zip(axes[:, 0], panels, strict=True):
        _panel(axis, name, rows)
    figure.tight_layout()
    figure.savefig(path)
    pyplot.close(figure)


def _panel(axis: Any, name: str, rows: Sequence[tuple[str, float]]) -> None:
    colours = ["tab:orange" if subject.startswith("rxchat") else "tab:gray" for subject, _ in rows]
    drawn = axis.barh([subject for subject, _ in rows], [ratio for _, ratio in rows], color=colours)
    axis.bar_label(drawn, labels=[f"{ratio:.3g}" for _, ratio in rows], padding=3, fontsize=7)
    axis.set_xscale("log")
    axis.set_xlim(0.1, 3 * max(ratio for _, ratio in rows))
    axis.set_title(f"{name}: CPU as a multiple of split + orjson", fontsize=9, loc="left")
    axis.tick_params(which="both", labelsize=7)
