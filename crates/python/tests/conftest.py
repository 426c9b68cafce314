"""What tests are given: a path that is free, and open stores."""

import keyrack
import pytest

OPTIONS = {"memory_budget": 16 << 20}


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "store")


@pytest.fixture
def db(tmp_path):
    with keyrack.open(tmp_path / "db", **OPTIONS) as db:
        yield db


@pytest.fixture
def spaces(tmp_path):
    with keyrack.open_spaces(tmp_path / "spaces", **OPTIONS) as spaces:
        yield spaces


def pytest_terminal_summary(terminalreporter, exitstatus):
    """A line as that of the tests in Rust, which the chores count."""
    stats = {name: len(reports) for name, reports in terminalreporter.stats.items()}
    failed = stats.get("failed", 0) + stats.get("error", 0)
    terminalreporter.write_line(
        f"\ntest result: {'ok' if exitstatus == 0 else 'FAILED'}. {stats.get('passed', 0)} passed; "
        f"{failed} failed; {stats.get('skipped', 0)} ignored"
    )
