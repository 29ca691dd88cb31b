import subprocess
import sys
from pathlib import Path

from remnant.sweep.claims import Claims

KEY = "a" * 64
TAKE = "import sys; from pathlib import Path; from remnant.sweep.claims import Claims\n"
TAKE += f"claims = Claims(Path(sys.argv[1])); print(claims.take('{KEY}'), flush=True)\n"


def taken_by_another_process(out: Path) -> bool:
    done = subprocess.run([sys.executable, "-c", TAKE, out], capture_output=True, text=True, check=True)
    return done.stdout.strip() == "True"


def test_a_run_is_claimed_once_and_a_claim_ends_when_it_is_released(tmp_path: Path) -> None:
    claims = Claims(tmp_path)
    assert claims.take(KEY)
    assert not Claims(tmp_path).take(KEY)
    assert Claims(tmp_path).take("b" * 64)
    claims.release(KEY)
    other = Claims(tmp_path)
    assert other.take(KEY)
    other.close()
    assert claims.take(KEY)


def test_the_claim_of_a_process_that_was_killed_can_be_taken(tmp_path: Path) -> None:
    script = TAKE + "sys.stdin.read()"
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", script, tmp_path], stdin=pipe, stdout=pipe) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"True\n"
        assert not Claims(tmp_path).take(KEY)
        process.kill()
    assert Claims(tmp_path).take(KEY)


def test_a_claim_of_this_process_holds_against_another_one(tmp_path: Path) -> None:
    claims = Claims(tmp_path)
    claims.take(KEY)
    assert not taken_by_another_process(tmp_path)
