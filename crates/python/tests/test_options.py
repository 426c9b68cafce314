"""Options of stores: each of Rust is here, and does what it says."""

import pathlib
import re

import keyrack
import pytest

RUST = pathlib.Path(__file__).parents[3] / "crates/flodb/src/options.rs"

# Code of a program's own, and what is for measurements.
LEFT_OUT = {"clock", "comparator", "compaction_filter", "discards_memtables", "filter_policy"}


def test_each_option_of_rust_is_here(path):
    body = RUST.read_text().split("pub struct Options {")[1].split("\n}")[0]
    in_rust = set(re.findall(r"^    pub (\w+):", body, re.MULTILINE))
    with pytest.raises(TypeError, match="the options are (.*)") as raised:
        keyrack.open(path, nothing=1)
    here = re.search("the options are (.*)", str(raised.value))[1].split(", ")
    assert here == sorted(here) and set(here) == in_rust - LEFT_OUT


@pytest.mark.parametrize("rule", ["separator:/", "fixed:4", b"separator:/"])
def test_ranges_within_a_prefix_pass_tables_without_it(path, rule):
    with keyrack.open(path, prefix_extractor=rule) as db:
        db.update({b"ada/1": b"", b"ada/2": b"", b"cyd/1": b""})
        db.flush()
        assert list(db.keys(prefix=b"bob/")) == [] and db.count(prefix=b"ada/") == 2
        assert db.property("keyrack.prefix_filters_refused") == "1"


@pytest.mark.parametrize("rule", ["fixed:", "fixed:-1", "separator:", "separator:ab", "first"])
def test_prefix_extractors_that_are_none_are_refused(path, rule):
    with pytest.raises(keyrack.Usage, match="fixed:BYTES or separator:BYTE"):
        keyrack.open(path, prefix_extractor=rule)
    with pytest.raises(keyrack.Usage, match="at least 1 byte"):
        keyrack.open(path, prefix_extractor="fixed:0")
    with pytest.raises(TypeError, match="prefix_extractor"):
        keyrack.open(path, prefix_extractor=4)


def test_sizes_of_memtables_and_blocks_are_taken(path):
    with pytest.raises(keyrack.Usage, match="restart_interval must be at least 1"):
        keyrack.open(path, restart_interval=0)
    with keyrack.open(path, restart_interval=1, unordered_max=10) as db:
        db.update({b"%03d" % n: b"" for n in range(100)})
        db.flush()
        assert db.count() == 100
