"""
What holds for all tests: seeded properties, few by default and many under RXCHAT_EXHAUSTIVE=1; what was skipped for want of recorded data, in one line.
"""

from __future__ import annotations

import signal

import pytest
from hypothesis import HealthCheck, settings

from tests.shared_data import EXHAUSTIVE, SHARED

# Derandomized: a red run is red again. No deadline: the machine may be busy.
_BASE = settings(deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
settings.register_profile("sample", _BASE, max_examples=100)
settings.register_profile("exhaustive", _BASE, max_examples=5000)
settings.load_profile("exhaustive" if EXHAUSTIVE else "sample")

# A shell has its background jobs ignore Ctrl-C, and what they start; the tests that send it would wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_report_header() -> list[str]:
    """
    Say which of the two sizes this run has, and whether the recorded data are there.
    """
    size = "everything (RXCHAT_EXHAUSTIVE=1)" if EXHAUSTIVE else "seeded samples (RXCHAT_EXHAUSTIVE=1 runs everything)"
    data = f"recorded data: {SHARED}" if SHARED.is_dir() else "recorded data: absent, the tests that read them are skipped"
    return [f"rxchat: {size}; {data}"]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """
    Count what was skipped because the recorded data are absent.
    """
    skipped = [report for report in terminalreporter.stats.get("skipped", []) if "recorded data absent" in str(report.longrepr)]
    if skipped:
        terminalreporter.write_line(f"{len(skipped)} tests were skipped because the recorded data are absent (RXCHAT_SHARED, or ../shared)")
