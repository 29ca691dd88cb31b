"""The harness that injects faults: it is itself right, and a sample of its cases is survived."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
def test_a_sample_of_all_faults_is_survived() -> None:
    command = [sys.executable, str(ROOT / "faults"), "--short"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "| **total** |" in done.stdout
