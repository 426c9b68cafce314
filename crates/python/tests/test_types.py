"""The stubs say what is there, and checkers of types use them."""

import pathlib
import re
import subprocess
import sys

import keyrack

HERE = pathlib.Path(__file__).parent


def mypy(tmp_path, *arguments):
    command = [sys.executable, "-m", *arguments, "--cache-dir", tmp_path]
    return subprocess.run(
        list(map(str, command)), capture_output=True, text=True, cwd=tmp_path, timeout=110
    )


def test_a_typed_program_is_accepted_and_its_errors_are_found(tmp_path):
    program = HERE / "typed.py"
    lines = enumerate(program.read_text().splitlines(), 1)
    refused = {number for number, line in lines if line.endswith("# refused")}
    done = mypy(tmp_path, "mypy", "--strict", program)
    found = {int(number) for number in re.findall(r"typed\.py:(\d+): error", done.stdout)}
    assert len(refused) == 6 and found == refused, done.stdout + done.stderr


def test_the_package_is_typed_and_its_stubs_are_true(tmp_path):
    package = pathlib.Path(keyrack.__file__).parent
    assert (package / "py.typed").exists()
    done = mypy(tmp_path, "mypy", "--strict", "-p", "keyrack")
    assert done.returncode == 0, done.stdout + done.stderr
    command = [sys.executable, "-m", "mypy.stubtest", "keyrack._keyrack"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=110)
    assert done.returncode == 0, done.stdout + done.stderr
