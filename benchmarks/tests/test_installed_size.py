"""Sizes of what is installed, by what installers wrote down."""

from __future__ import annotations

from benchmarks.installed_size import sizes


def install(folder, name, files):
    """A distribution as an installer leaves it."""
    facts = folder / f"{name}-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\n")
    (facts / "RECORD").write_text("".join(f"{each},,\n" for each in [*files, "lost"]))
    for each, size in files.items():
        (folder / each).write_bytes(bytes(size))


def test_files_that_are_there_are_counted(tmp_path):
    install(tmp_path, "small", {"a.py": 1_000})
    install(tmp_path, "large", {"b.py": 2_000_000, "b.pyc": 500_000})
    (tmp_path / "nobodys").write_bytes(bytes(9_000_000))
    found = sizes([str(tmp_path)])
    assert list(found) == ["large", "small"]
    assert found["large"] == (2.5, 0.5)
    assert found["small"] == (0.001, 0.0)
