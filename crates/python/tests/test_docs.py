"""The examples of docstrings and of the page, and that everything public has a docstring."""

import doctest
import inspect
import pathlib

import keyrack
import keyrack.fs
import keyrack.fsspec
import pytest

PAGE = pathlib.Path(__file__).parents[3] / "docs/python.md"


def documented():
    """Public objects with docstrings, by name."""
    things = [(name, getattr(keyrack, name)) for name in keyrack.__all__]
    files = keyrack.fs.FileSystem
    things += [("FileSystem", files), ("Files", files.__base__), ("Stat", keyrack.fs.Stat)]
    for name, thing in things:
        yield name, thing
        if inspect.isclass(thing) and not issubclass(thing, Exception):
            for member, value in vars(thing).items():
                if not member.startswith("_") or member in ("__getitem__", "__delitem__"):
                    yield f"{name}.{member}", value


@pytest.mark.parametrize("name, thing", list(documented()))
def test_examples_of(name, thing, path, request):
    text = inspect.getdoc(thing)
    assert text, f"{name} has no docstring"
    names = {"keyrack": keyrack, "path": path, "FileSystem": keyrack.fs.FileSystem}
    # Stores are opened for examples that use them.
    for store in ("db", "spaces"):
        if ">>>" in text and store in text:
            names[store] = request.getfixturevalue(store)
    run(text, name, names)


@pytest.mark.parametrize("module", [keyrack, keyrack.fs, keyrack.fsspec])
def test_examples_of_the_module(module, path):
    run(inspect.getdoc(module), module.__name__, {"keyrack": keyrack, "path": path})


def run(text, name, names):
    examples = doctest.DocTestParser().get_doctest(text, names, name, None, None)
    assert doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(examples).failed == 0


def test_programs_of_the_page(tmp_path, monkeypatch):
    """Each block of Python on the page runs, in a folder of its own."""
    blocks = PAGE.read_text().split("```python\n")[1:]
    assert len(blocks) >= 4
    for index, block in enumerate(blocks):
        folder = tmp_path / str(index)
        folder.mkdir()
        monkeypatch.chdir(folder)
        program = compile(block.split("```")[0], f"{PAGE.name} block {index}", "exec")
        exec(program, {"__name__": "example"})
