"""Rows of sources in temporary files: the same bits, and no file that is left.

``memory=0`` sends all rows to the disk.
"""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.base import clone

from skdp.io._session import KeptCells, RowBatch
from skdp.tables import _block_file
from skdp.tables._source import KeptRows, Room
from tests.io import places
from tests.io.places import COLUMNS, FEATURES
from tests.io.test_kept_rows import BETWEEN, DEFAULT, MODELS, readings, weights_of
from tests.io.test_shared_passes import (
    LOGISTIC,
    TREES,
    counted,
    counting,
    fitted,
    searched,
)
from tests.io.users import MOST, facts_of, fitted_here, table
from tests.wide import covering

pytestmark = pytest.mark.filterwarnings("ignore")
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


@pytest.fixture
def written(monkeypatch):
    """One entry for each block that is written to a file."""
    add, found = _block_file.BlockFile.add, []

    def watched(self, block):
        found.append(block.n_bytes)
        return add(self, block)

    monkeypatch.setattr(_block_file.BlockFile, "add", watched)
    return found


# ------------------------------------------------------------------------ the same bits


MODELS = MODELS | {
    "sampled": clone(MODELS["network"]).set_params(
        solver="noisy_sgd", solver_params={"n_steps": 4, "batch_size": 200}
    )
}


@pytest.mark.parametrize("name", [name for name in MODELS if name != "clipped sums"])
def test_bits_of_records_are_those_of_memory(name, tmp_path, passes, written):
    frame, model = places.numbers(), MODELS[name]
    here = weights_of(clone(model).fit(frame[FEATURES], frame["y"]))
    found = {}
    for memory, disk in ((2**30, 0), (0, None), (4000, None), (0, 0)):
        source = places.in_files(
            frame, tmp_path / "rows", batch_size=97, memory=memory, disk=disk
        )
        passes.clear(), written.clear()
        assert weights_of(clone(model).fit(source)) == here
        found[memory, disk] = len(passes)
        assert bool(written) == (memory < 2**30 and disk is None)
    assert found[2**30, 0] == found[0, None] == found[4000, None] < found[0, 0]


@pytest.mark.parametrize("name", ["dense", "cells", "clipped sums", "network"])
def test_bits_of_users_are_those_of_memory(name, tmp_path, passes):
    frame, found = table(many=[MOST + 300]), []
    model = clone(MODELS[name]).set_params(privacy_unit="user")
    here = weights_of(fitted_here(model, frame[FEATURES], frame["y"], frame["id"]))
    # All rows have room on the disk, and some have.
    for disk in (2**30, 2000):
        source = places.in_files(
            frame, tmp_path, batch_size=300, memory=0, disk=disk, **facts_of(frame)
        )
        passes.clear()
        assert weights_of(clone(model).fit(source)) == here
        found.append(len(passes))
    assert found[0] < found[1]


def test_a_fit_without_privacy_keeps_its_rows_there_too(tmp_path, passes, written):
    frame, model = places.numbers(), clone(DEFAULT).set_params(epsilon=np.inf)
    bits = []
    for memory in (2**30, 0):
        passes.clear()
        source = places.in_files(frame, tmp_path / "rows", memory=memory)
        bits.append(weights_of(clone(model).fit(source)))
        assert len(passes) == 1
    assert bits[0] == bits[1]
    assert written


@pytest.mark.long
@pytest.mark.parametrize("model", [LOGISTIC, TREES], ids=["linear", "trees"])
@pytest.mark.parametrize("method", ["composition", "random_stopping"])
def test_a_search_reads_a_table_without_memory_once(model, method, tmp_path, written):
    frame, found = places.numbers(), []
    for memory in (2**30, 0):
        source = counting(frame, tmp_path / "t", memory=memory)
        assert counted(lambda source=source: fitted(model, source)) >= 1
        search = []
        n_reads = counted(
            lambda source=source, search=search: search.append(
                searched(model, source, method)
            )
        )
        assert n_reads == 1
        found.append(str(search[0].cv_results_) + str(search[0].best_params_))
    assert found[0] == found[1]
    assert written


def test_cells_come_back_from_a_file():
    import pyarrow as pa

    schema = pa.schema([("a", pa.string()), ("b", pa.float64())])
    texts = [["x", None, "y"], ["y", "y", "long" * 99]]
    read = [
        RowBatch(
            pa.record_batch([pa.array(own), pa.array([0.5, None, 2.0])], schema=schema),
            is_record,
        ).at(np.array([1, 2]))
        for own, is_record in ((texts[0], None), (texts[1], np.arange(3) < 2))
    ]
    cells = KeptCells(schema, (), 4, False, Room(0.0, 100.0))
    for _ in range(3):
        found = list(cells.passed(("b", "a"), "", lambda names: iter(read)))
        for one, own in zip(found, read, strict=True):
            assert one.columns.to_pydict() == own.select(("b", "a")).columns.to_pydict()
            assert str(one.is_record) == str(own.is_record)


# ------------------------------------------------------ what decides, and what does not


def test_whether_there_is_room_follows_from_no_cell(tmp_path, monkeypatch, passes):
    for disk in (0, BETWEEN, 2**30):
        places.keeps(monkeypatch, 0, disk)
        of_many, of_few = readings(tmp_path, passes)
        assert of_many == of_few
    room = Room(0.0, BETWEEN)
    from skdp.sums import _gradient_sum

    monkeypatch.setattr(_gradient_sum, "room_for", lambda *given: room)  # a twin
    of_many, of_few = readings(tmp_path, passes)
    assert of_many > of_few


def warned(model, source):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        model.fit(source)
    return [str(each.message) for each in found if "temporary" in str(each.message)]


def test_a_disk_that_is_off_or_full_is_said_before_the_fit(
    tmp_path, monkeypatch, written
):
    frame = places.numbers()
    on, off = (
        places.in_files(frame, tmp_path / str(disk), memory=0, disk=disk)
        for disk in (None, 0)
    )
    assert not warned(clone(DEFAULT), on)
    written.clear()
    assert "disk=None" in warned(clone(DEFAULT), off)[0]
    monkeypatch.setattr(
        shutil, "disk_usage", lambda folder: SimpleNamespace(free=2 * 10_000)
    )
    assert "10000 bytes on the disk" in warned(clone(DEFAULT), on)[0]
    assert not written
    with pytest.raises(ValueError, match="None for half of what is free"):
        places.in_files(frame, tmp_path / "rows", disk=-1)


@pytest.mark.long
@pytest.mark.parametrize("name", ["cells", "dense"])
@pytest.mark.parametrize("n_writes", [0, 3])
def test_a_disk_that_fills_up_during_a_fit_changes_no_bit(
    name, n_writes, tmp_path, monkeypatch, passes
):
    frame, done = places.numbers(), []
    here = weights_of(clone(MODELS[name]).fit(frame[FEATURES], frame["y"]))
    write = _block_file.BlockFile._write

    def fails(self, piece):
        done.append(piece.nbytes)
        if len(done) > n_writes:
            raise OSError(errno.ENOSPC, "No space left on device")
        write(self, piece)

    monkeypatch.setattr(_block_file.BlockFile, "_write", fails)
    source = places.in_files(frame, tmp_path / "rows", batch_size=97, memory=0)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        model = clone(MODELS[name]).fit(source)
    assert weights_of(model) == here
    assert done
    assert not [each for each in found if "disk" in str(each.message)]
    assert len(passes) >= 4


# --------------------------------------------------------------------- what is left


FIT = """
import os, signal, subprocess, sys, tempfile
from skdp import DPLogisticRegression, ParquetSource
from skdp.tables import _block_file

{twin}
file, opened = _block_file.BlockFile, []
blocks, add = file.blocks, file.add

def seen(self, block):
    is_written = add(self, block)
    facts = os.fstat(self._file.fileno())
    print(oct(facts.st_mode & 0o777), facts.st_nlink, facts.st_size > 0)
    return is_written

def ends(self):
    yield from blocks(self)
    {end}

file.add, file.blocks = seen, ends
source = ParquetSource(
    {path!r},
    target="y",
    n_samples={n},
    features={features},
    columns={columns},
    memory=0,
    batch_size=300,
)
DPLogisticRegression(classes=[0, 1], random_state=0).fit(source)
"""
# What names the file and leaves it.
TWIN = """
def named(**given):
    return tempfile.NamedTemporaryFile(delete=False, **given)

tempfile.TemporaryFile = named
"""
ENDS = {
    "success": "pass",
    "error": "raise RuntimeError",
    "interrupt": "raise KeyboardInterrupt",
    "signal": "os.kill(os.getpid(), signal.SIGINT)",
    "kill": "os.kill(os.getpid(), signal.SIGKILL)",
    "exit": "os._exit(3)",
}
# Ends at which Python runs what is left to do.
UNWINDING = ("success", "error", "interrupt", "signal")


def left_by(tmp_path, end, twin=""):
    """What a process prints, its code, and what it leaves for temporary files."""
    frame, folder = places.numbers(), tmp_path / "temporary"
    folder.mkdir()
    places.write(frame, tmp_path / "rows", 1)
    facts = {"path": str(tmp_path / "rows"), "n": len(frame), "columns": COLUMNS}
    program = FIT.format(end=end, twin=twin, features=FEATURES, **facts)
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "TMPDIR": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    return done, list(folder.iterdir())


@pytest.mark.long
@pytest.mark.skipif(os.name != "posix", reason="files that are open have no name")
@pytest.mark.parametrize(
    "name", covering(ENDS, lambda name: (name in UNWINDING, name == "success"))
)
def test_no_file_is_left_however_a_process_ends(name, tmp_path):
    done, left = left_by(tmp_path, ENDS[name])
    assert (done.returncode == 0) == (name == "success"), done.stderr
    if name == "kill":
        assert done.returncode == -signal.SIGKILL
    assert not left
    # Only the user may read it, and no folder lists it.
    lines = done.stdout.split("\n") if name not in ("kill", "exit") else []
    assert not lines or {"0o600 0 True"} == set(filter(None, lines))


@pytest.mark.long
@pytest.mark.skipif(
    os.name != "posix", reason="Windows deletes files that are open itself"
)
@pytest.mark.parametrize("name", ["success", "kill"])
def test_the_twin_leaves_a_file_with_a_name(name, tmp_path):
    _, left = left_by(tmp_path, ENDS[name], TWIN)
    assert left
    assert left[0].stat().st_size > 0


@pytest.mark.long
@LINUX
def test_no_other_process_gets_the_file(tmp_path):
    look = (
        "print(subprocess.run(['ls', '-l', '/proc/self/fd'], close_fds=False, "
        "capture_output=True, text=True).stdout)"
    )
    done, _ = left_by(tmp_path, look)
    assert done.returncode == 0, done.stderr
    assert "/dev/null" in done.stdout or "pipe:" in done.stdout
    assert "temporary" not in done.stdout
    # This process has it, so that the test can find it.
    here = look.replace("'/proc/self/fd'", "f'/proc/{os.getpid()}/fd'")
    (tmp_path / "here").mkdir()
    done, _ = left_by(tmp_path / "here", here)
    assert "/here/temporary" in done.stdout


# ------------------------------------------------------------------------ the memory


class Rows:
    """A block of one array."""

    def __init__(self, numbers):
        self.numbers = numbers

    @property
    def n_bytes(self):
        return self.numbers.nbytes


def megabytes():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if "VmRSS" in line) / 1024


@LINUX
@pytest.mark.parametrize("is_freed", [True, False])
def test_a_pass_takes_the_memory_of_a_block(is_freed, monkeypatch):
    held, mapped = [], _block_file.mmap.mmap

    def remembers(*given, **named):
        held.append(mapped(*given, **named))
        return held[-1]

    if not is_freed:  # a twin
        monkeypatch.setattr(_block_file.mmap, "mmap", remembers)
    kept, before, most = KeptRows(Room(0.0, 2**30)), megabytes(), 0.0

    def read():
        return (Rows(np.full(2**17, float(i))) for i in range(100))

    for _ in range(3):
        for i, block in enumerate(kept.passed(read)):
            assert block.numbers.sum() == 2**17 * i
            most = max(most, megabytes() - before)
    assert kept._file is not None
    assert (most < 30) == is_freed


@pytest.mark.parametrize("sizes", [(0,), (3, 0), (0, 0)])
def test_a_block_that_ends_with_an_empty_array_is_read_again(sizes, monkeypatch):
    """Whether a block has rows may be private, so nothing may fail because of it."""
    block = [np.arange(float(size)) for size in sizes]

    def again():
        file = _block_file.BlockFile()
        assert file.add(block)
        (found,) = file.blocks()
        return found

    assert all(map(np.array_equal, again(), block))

    # The twin ends the file with the last byte that was written.
    class Shorter:
        def __init__(self, file):
            self._file = file

        def __getattr__(self, name):
            return getattr(self._file, name)

        def truncate(self, size):
            pass

    opened = _block_file.tempfile.TemporaryFile
    monkeypatch.setattr(
        _block_file.tempfile, "TemporaryFile", lambda **given: Shorter(opened(**given))
    )
    with pytest.raises(ValueError, match="mmap length"):
        again()
