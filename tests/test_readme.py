"""
The README tells the truth: its Python runs and prints what it says, its table of events is the table of events, its commands and links exist.
"""

from __future__ import annotations

import contextlib
import io
import re
import tomllib
from pathlib import Path

import attrs
import pytest

import rxchat
from rxchat.events import EVENT_TYPES
from tests.shared_data import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```python\n(?P<code>.*?)^```\n(?:\n```text\n(?P<printed>.*?)^```$)?", re.MULTILINE | re.DOTALL)
BLOCKS = [(match["code"], match["printed"], README[: match.start()].count("\n") + 2) for match in BLOCK.finditer(README)]
ROW = re.compile(r"^\| (?P<group>[A-Z_]+) \| `(?P<cls>\w+)` \| `(?P<tag>[A-Z_]+)` \| (?P<phase>[A-Z]*) \| (?P<fields>.*?) \|", re.MULTILINE)

NOT_CODE = {"tests/", "benchmarks/", "notebooks/", "mutants/", "rxchat/"}


def lines(text: str) -> list[str]:
    """
    Lines without trailing blanks, which editors take away.
    """
    return [line.rstrip() for line in text.rstrip().splitlines()]


@pytest.mark.parametrize(("code", "printed", "line"), BLOCKS, ids=[f"line-{line}" for *_, line in BLOCKS])
def test_python_blocks_run_and_print_what_they_say(code: str, printed: str | None, line: int) -> None:
    """
    Each Python block runs by itself; where a text block follows, that is what it prints.
    """
    said = io.StringIO()
    program = compile("\n" * (line - 1) + code, "README.md", "exec")
    with contextlib.redirect_stdout(said):
        exec(program, {"__name__": "__main__"})
    if printed is not None:
        assert lines(printed) == lines(said.getvalue())


def test_there_are_blocks_and_the_first_has_twelve_lines() -> None:
    """
    The example that a newcomer sees first stays short enough to be read.
    """
    assert len(BLOCKS) >= 5
    assert len([line for line in lines(BLOCKS[0][0]) if line]) <= 12
    assert BLOCKS[0][1] is not None


def test_table_of_events_is_the_table_of_events() -> None:
    """
    All event types in order, with group, tag, phase and fields as the classes have them.
    """
    told = [(row["group"], row["cls"], row["tag"], row["phase"], re.findall(r"`(\w+)`", row["fields"])) for row in ROW.finditer(README)]
    true = [
        (str(cls.group), cls.__name__, cls.type, "" if cls.phase == "NONE" else str(cls.phase), [field.name for field in attrs.fields(cls)])
        for cls in EVENT_TYPES.values()
    ]
    assert true == told


def test_two_commands_install_what_the_project_offers() -> None:
    """
    One line installs and asks, one installs and tests; both use extras that exist.
    """
    commands = re.findall(r"^python3\.11 -m venv .*$", README, re.MULTILINE)
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert ["ask", "pytest"] == [word for command in commands for word in ("ask", "pytest") if word in command]
    assert {"local", "test"} == {extra for command in commands for extra in re.findall(r"\.\[(\w+)\]", command)} & set(extras)


def test_links_into_the_project_lead_somewhere() -> None:
    """
    Relative links are files of the project.
    """
    links = [link for link in re.findall(r"\]\(([^)#]+)\)", README) if "://" not in link]
    assert [] == [link for link in links if not (ROOT / link).exists()]


def test_the_map_of_the_code_names_every_module() -> None:
    """
    CONTRIBUTING's map has all that lies in rxchat/.
    """
    contributing = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    drawn = set(re.findall(r"[\w]+(?:\.py|/)(?=[ ,])", contributing.split("```")[3]))
    there = {
        path.name if path.is_file() else f"{path.name}/" for path in Path(rxchat.__file__).parent.iterdir() if path.suffix == ".py" or path.is_dir()
    }
    assert there - {"__init__.py", "__main__.py", "__pycache__/"} == {name for name in drawn if name not in ("base.py", "grammar.py")} - NOT_CODE
