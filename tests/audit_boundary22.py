"""
Judge the evidence of the boundary cases (`RXCHAT_EVIDENCE=FILE pytest tests/test_boundary22.py`): python tests/audit_boundary22.py FILE

Independent of what it judges: it imports nothing of rxchat or of its tests, and holds the published table itself. Exit code 0 only if all is right.
"""

from __future__ import annotations

import base64
import hashlib
import json
import sys
from pathlib import Path

CAPS = ("one", "seven", "whole")
FIRST, FULL = "你好，", "你好，Java 🌱"

# Published: id, length of the body, first 12 digits of its SHA-256, status, entries of history afterwards, preview.
TABLE = (
    ("one-byte", 253, "f4570815369d", "COMPLETE", 4, FULL),
    ("seven-byte", 253, "f4570815369d", "COMPLETE", 4, FULL),
    ("crlf", 261, "799a5372ad5e", "COMPLETE", 4, FULL),
    ("bare-cr", 253, "8f1e30023b6d", "COMPLETE", 4, FULL),
    ("multiline", 274, "d5a777368a94", "COMPLETE", 4, FULL),
    ("bom-heartbeat", 304, "0095fa634f25", "COMPLETE", 4, FULL),
    ("missing-done", 153, "35099b52750d", "INCOMPLETE_STREAM", 2, FIRST),
    ("unterminated-done", 165, "6db2de8b8e38", "INCOMPLETE_STREAM", 2, FIRST),
    ("done-without-finish", 100, "24d48c4d0b9f", "PROTOCOL", 2, FIRST),
    ("after-finish", 249, "e05658661b86", "PROTOCOL", 2, FIRST),
    ("tool-delta", 59, "0432c9b644ca", "PROTOCOL", 2, ""),
    ("length-finish", 255, "aefa4db6a787", "INCOMPLETE_FINISH", 2, FULL),
    ("provider-error", 125, "ebdc876f69e0", "PROVIDER_ERROR", 2, FIRST),
    ("malformed-json", 14, "1b43a89b64c8", "INVALID_JSON", 2, ""),
    ("duplicate-json", 35, "edc723b3c814", "INVALID_JSON", 2, ""),
    ("invalid-utf8", 2, "eddf68639913", "INVALID_UTF8", 2, ""),
    ("oversized-line", 8208, "cc62126136b3", "LIMIT", 2, ""),
    ("oversized-output", 4255, "0fdcf6805fbf", "LIMIT", 2, ""),
    ("wrong-mime", 253, "f4570815369d", "CONTENT_TYPE", 2, ""),
    ("http-503", 253, "f4570815369d", "HTTP_STATUS", 2, ""),
    ("cancel", 253, "f4570815369d", "CANCELLED", 2, FIRST),
    ("read-timeout", 0, "e3b0c44298fc", "READ_TIMEOUT", 2, ""),
)
STATUSES = {
    "COMPLETE": 6,
    "INCOMPLETE_STREAM": 2,
    "PROTOCOL": 3,
    "INCOMPLETE_FINISH": 1,
    "PROVIDER_ERROR": 1,
    "INVALID_JSON": 2,
    "INVALID_UTF8": 1,
    "LIMIT": 2,
    "CONTENT_TYPE": 1,
    "HTTP_STATUS": 1,
    "CANCELLED": 1,
    "READ_TIMEOUT": 1,
}


def faults(rows: list[dict[str, object]]) -> list[str]:
    """
    Everything that is not as published.
    """
    found = []
    seen = {(row["case"], row["cap"]): row for row in rows}
    if len(rows) != len(TABLE) * len(CAPS) or len(seen) != len(rows):
        found.append(f"{len(rows)} rows, {len(seen)} different, {len(TABLE) * len(CAPS)} wanted")
    for cap in CAPS:
        for case, length, digest, status, entries, preview in TABLE:
            row = seen.get((case, cap))
            found += (
                [f"{case} at {cap}: missing"]
                if row is None
                else [f"{case} at {cap}: {what}" for what in wrong(row, length, digest, status, entries, preview)]
            )
        counted = [row["status"] for row in rows if row["cap"] == cap]
        found += [
            f"{status} at {cap}: {counted.count(status)} times, {count} wanted"
            for status, count in STATUSES.items()
            if counted.count(status) != count
        ]
    return found


def wrong(row: dict[str, object], length: int, digest: str, status: str, entries: int, preview: str) -> list[str]:
    """
    What is wrong with one row.
    """
    body = base64.b64decode(str(row["body_b64"]))
    history = row["history"]
    assert isinstance(history, list)
    checks = {
        f"length {len(body)}": len(body) == length,
        f"digest {hashlib.sha256(body).hexdigest()[:12]}": hashlib.sha256(body).hexdigest()[:12] == digest,
        f"status {row['status']}": row["status"] == status,
        f"preview {row['preview']!r}": row["preview"] == preview,
        f"history {row['history_before']} -> {row['history_after']}": (row["history_before"], row["history_after"], len(history))
        == (2, entries, entries),
        "history does not hold the answer": entries == 2 or history[-1] == preview,
    }
    return [what for what, right in checks.items() if not right]


def main(path: str) -> int:
    """
    Print what is wrong, then the count; the exit code.
    """
    rows = [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines() if line.strip()]
    found = faults(rows)
    print("\n".join(found) if found else f"{len(rows)} rows are as published: {len(TABLE)} cases at {len(CAPS)} read caps")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
