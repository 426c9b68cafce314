"""The file system for fsspec: its own expectations, and programs that read and write by URL."""

import pickle
import threading

import fsspec
import keyrack.fs
import pandas
import pyarrow
import pyarrow.dataset
import pyarrow.parquet
import pytest
from fsspec.tests.abstract import (
    AbstractCopyTests,
    AbstractFixtures,
    AbstractGetTests,
    AbstractOpenTests,
    AbstractPipeTests,
    AbstractPutTests,
)
from keyrack.fsspec import KeyrackFileSystem


@pytest.fixture
def log(tmp_path):
    return str(tmp_path / "log")


@pytest.fixture
def fs(log):
    fs = fsspec.filesystem("keyrack", log=log)
    yield fs
    fs.close()


class KeyrackFixtures(AbstractFixtures):
    @pytest.fixture
    def fs(self, tmp_path):
        fs = fsspec.filesystem("keyrack", log=str(tmp_path / "log"), auto_mkdir=True)
        yield fs
        fs.close()

    @pytest.fixture
    def fs_path(self):
        return "/"


class TestCopy(AbstractCopyTests, KeyrackFixtures):
    pass


class TestGet(AbstractGetTests, KeyrackFixtures):
    pass


class TestOpen(AbstractOpenTests, KeyrackFixtures):
    pass


class TestPipe(AbstractPipeTests, KeyrackFixtures):
    pass


class TestPut(AbstractPutTests, KeyrackFixtures):
    pass


def test_the_protocol_is_registered_by_the_installation(fs):
    assert type(fs) is KeyrackFileSystem
    assert fsspec.get_filesystem_class("keyrack") is KeyrackFileSystem
    with pytest.raises(ValueError, match="log=DIR"):
        fsspec.filesystem("keyrack")


def test_paths_have_one_form(fs):
    strip = fs._strip_protocol
    for path in ("keyrack:///a/b", "/a/b", "a/b", "/a/b/", "keyrack://a/b"):
        assert strip(path) == "/a/b"
    assert strip("keyrack://") == strip("/") == strip("") == "/"
    assert strip(["/a/", "b"]) == ["/a", "/b"]


def test_files_have_facts(fs):
    fs.pipe("/a", b"hello")
    fs.mkdir("/dir/below")
    fs.files.symlink("/a", "/link")
    fs.files.symlink("/gone", "/lost")
    assert fs.ls("/", detail=False) == ["/a", "/dir", "/link", "/lost"]
    info = fs.info("/a")
    assert (info["name"], info["size"], info["type"]) == ("/a", 5, "file")
    assert fs.info("/link")["type"] == "file" and fs.info("/link")["destination"] == "/a"
    assert fs.info("/lost")["type"] == "link" and not fs.exists("/lost")
    assert fs.isdir("/dir") and fs.isfile("/a") and not fs.exists("/none")
    assert [entry["name"] for entry in fs.ls("/a")] == ["/a"]
    assert fs.modified("/a").timestamp() == pytest.approx(info["mtime"])
    with pytest.raises(FileNotFoundError):
        fs.info("/none")
    with pytest.raises(FileNotFoundError):
        fs.ls("/none")


def test_bytes_are_read_in_parts(fs):
    data = bytes(range(256)) * 100
    fs.pipe_file("/a", data)
    assert fs.cat_file("/a", 10, 20) == data[10:20]
    assert fs.cat_file("/a", -10) == data[-10:] and fs.cat_file("/a", 30, 20) == b""
    assert fs.cat_ranges(["/a"] * 2, [0, 5], [3, 9]) == [data[:3], data[5:9]]
    with fs.open("/a", "rb", block_size=100) as file:
        file.seek(-5, 2)
        assert file.read() == data[-5:]
        file.seek(1000)
        assert file.read(3000) == data[1000:4000]
    with pytest.raises(FileExistsError):
        fs.pipe_file("/a", b"", mode="create")


def test_a_new_file_is_there_when_it_is_closed_and_whole(fs):
    fs.pipe("/a", b"old")
    file = fs.open("/a", "wb", block_size=1000)
    for _ in range(10):
        file.write(bytes(500))
    assert fs.cat("/a") == b"old"
    file.close()
    assert fs.cat("/a") == bytes(5000) and fs.ls("/", detail=False) == ["/a"]
    with fs.open("/a", "ab") as file:
        assert file.tell() == 5000
        file.write(b"more")
    assert fs.cat("/a") == bytes(5000) + b"more"
    with pytest.raises(FileExistsError):
        fs.open("/a", "xb")
    with fs.open("/b", "xb") as file:
        file.write(b"new")
    assert fs.cat("/b") == b"new"
    with pytest.raises(IsADirectoryError):
        fs.open("/", "rb")


def test_a_transaction_gives_names_at_its_end(fs):
    with fs.transaction:
        for name in ("/a", "/b"):
            with fs.open(name, "wb") as file:
                file.write(b"data")
        assert not fs.exists("/a")
    assert fs.cat("/a") == fs.cat("/b") == b"data"
    with pytest.raises(ZeroDivisionError):
        with fs.transaction:
            with fs.open("/c", "wb") as file:
                file.write(b"data")
            1 / 0
    assert fs.ls("/", detail=False) == ["/a", "/b"]


def test_trees_are_moved_copied_and_removed(fs):
    fs.makedirs("/a/b")
    fs.pipe("/a/b/file", b"x")
    fs.mv("/a", "/c")
    assert fs.find("/") == ["/c/b/file"]
    fs.mkdir("/d")
    fs.mv("/c", "/d")
    fs.copy("/d", "/e", recursive=True)
    assert fs.find("/") == ["/d/c/b/file", "/e/c/b/file"]
    assert fs.glob("/*/c/*/f*") == ["/d/c/b/file", "/e/c/b/file"]
    fs.rm("/d", recursive=True)
    fs.rm_file("/e/c/b/file")
    fs.rmdir("/e/c/b")
    fs.touch("/e/t")
    fs.pipe("/e/t", b"data")
    fs.touch("/e/t", truncate=False)
    assert fs.cat("/e/t") == b"data"
    fs.touch("/e/t")
    assert fs.cat("/e/t") == b"" and fs.du("/") == 0
    with pytest.raises(OSError):
        fs.rmdir("/e")


def test_threads_and_copies_of_a_file_system_share_a_log(fs, log):
    fs.pipe("/a", b"x")
    found = []
    threads = [
        threading.Thread(
            target=lambda: found.append(fsspec.filesystem("keyrack", log=log).cat("/a"))
        )
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [b"x"] * 4
    assert pickle.loads(pickle.dumps(fs)).cat("/a") == b"x"


def test_a_close_frees_the_log_until_the_next_call(fs, log):
    fs.pipe("/a", b"x")
    fs.close()
    with keyrack.fs.FileSystem(log) as other:
        assert other.listdir("/") == ["a"]
        with pytest.raises(keyrack.FileError, match="in use"):
            fs.ls("/")
    assert fs.cat("/a") == b"x"
    assert fsspec.filesystem("keyrack", log=log) is fs


def test_pandas_writes_and_reads_a_table(fs, log):
    options = {"log": log}
    frame = pandas.DataFrame({"n": range(10_000), "name": [f"row {n}" for n in range(10_000)]})
    frame.to_csv("keyrack:///table.csv", index=False, storage_options=options)
    read = pandas.read_csv("keyrack:///table.csv", storage_options=options)
    pandas.testing.assert_frame_equal(read, frame, check_dtype=False)
    frame.to_csv("keyrack:///table.csv.gz", index=False, storage_options=options)
    read = pandas.read_csv("keyrack:///table.csv.gz", storage_options=options)
    assert len(read) == 10_000 and fs.size("/table.csv.gz") < fs.size("/table.csv")
    frame.to_parquet("keyrack:///table.parquet", storage_options=options)
    read = pandas.read_parquet("keyrack:///table.parquet", storage_options=options)
    assert read["n"].sum() == sum(range(10_000))


def test_pyarrow_writes_and_reads_a_dataset(fs):
    table = pyarrow.table({"day": [1, 1, 2, 3], "n": [1, 2, 3, 4]})
    pyarrow.parquet.write_to_dataset(table, "/set", partition_cols=["day"], filesystem=fs)
    found = pyarrow.dataset.dataset("/set", filesystem=fs, partitioning="hive")
    assert len(found.files) == 3
    assert found.to_table(filter=pyarrow.dataset.field("day") < 3)["n"].to_pylist() == [1, 2, 3]


@pytest.mark.parametrize("mode", ["w", "wb", "x", "xb"])
@pytest.mark.parametrize("block_size", [10, 1 << 20])
def test_a_block_that_raises_leaves_the_old_file(fs, mode, block_size):
    if "w" in mode:
        fs.pipe("/a", b"old")
    for count in (0, 100):
        with pytest.raises(ZeroDivisionError):
            with fs.open("/a", mode, block_size=block_size) as file:
                file.write("x" * count if "b" not in mode else b"x" * count)
                1 / 0
        assert file.closed
    assert fs.ls("/", detail=False) == (["/a"] if "w" in mode else [])
    assert "x" in mode or fs.cat("/a") == b"old"


def test_a_block_that_raises_in_a_transaction_is_left_out_of_it(fs):
    with fs.transaction:
        with fs.open("/a", "wb") as file:
            file.write(b"data")
        with pytest.raises(ZeroDivisionError):
            with fs.open("/b", "wb") as file:
                file.write(b"data")
                1 / 0
    assert fs.ls("/", detail=False) == ["/a"]
