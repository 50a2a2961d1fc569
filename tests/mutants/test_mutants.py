"""
Each planted fault is seen: the tests its row names fail with it, and pass without it.

A row that no longer matches the source fails too. The tests run in a process of their own, on a copy of the package, without the recorded data.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import rxchat
from tests.mutants.table import MUTANTS, Mutant
from tests.shared_data import ROOT

PACKAGE = Path(rxchat.__file__).parent
ALL_FAILED = 1


def copy_of_the_project(to: Path) -> Path:
    """
    The package as it is imported here, with the tests beside it.
    """
    unwanted = shutil.ignore_patterns("__pycache__", "mutants")
    shutil.copytree(PACKAGE, to / "rxchat", ignore=unwanted)
    shutil.copytree(ROOT / "tests", to / "tests", ignore=unwanted)
    for file in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / file, to / file)
    return to


def run_tests(where: Path, tests: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    """
    Run these tests on the package that lies in `where`.
    """
    env = {**os.environ, "PYTHONPATH": str(where), "PYTHONDONTWRITEBYTECODE": "1", "RXCHAT_SHARED": str(where / "absent"), "RXCHAT_EXHAUSTIVE": "0"}
    env = {name: value for name, value in env.items() if not name.startswith(("PYTEST_", "COV_"))}
    command = [sys.executable, "-m", "pytest", "-q", "--tb=no", "-rf", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:cov", *tests]
    return subprocess.run(command, cwd=where, env=env, capture_output=True, text=True, timeout=120, check=False)


def failed(output: str) -> set[str]:
    """
    The tests that failed, without their parameters.
    """
    return {re.sub(r"\[.*", "", test) for test in re.findall(r"^FAILED (\S+)", output, re.MULTILINE)}


def test_without_a_fault_the_named_tests_pass(tmp_path: Path) -> None:
    """
    What fails below fails for its fault and for nothing else.
    """
    tests = tuple(dict.fromkeys(test for mutant in MUTANTS for test in mutant.tests))
    result = run_tests(copy_of_the_project(tmp_path), tests)
    assert result.returncode == 0, result.stdout[-4000:] + result.stderr


@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.name for mutant in MUTANTS])
def test_each_fault_makes_its_tests_fail(mutant: Mutant, tmp_path: Path) -> None:
    """
    All tests the row names fail.
    """
    file = copy_of_the_project(tmp_path) / "rxchat" / mutant.file
    source = file.read_text(encoding="utf-8")
    assert source.count(mutant.source) == 1, f"the source of {mutant.name} is {source.count(mutant.source)} times in {mutant.file}: mend the row"
    file.write_text(source.replace(mutant.source, mutant.fault), encoding="utf-8")
    result = run_tests(tmp_path, mutant.tests)
    assert result.returncode == ALL_FAILED, f"{mutant.name} was not seen:\n{result.stdout[-4000:]}{result.stderr}"
    assert set(mutant.tests) == failed(result.stdout), result.stdout[-4000:]


def test_there_are_enough_faults_with_names_of_their_own() -> None:
    """
    The table covers what the contract cares for most.
    """
    names = [mutant.name for mutant in MUTANTS]
    assert len(names) == len(set(names))
    assert len(names) >= 16
