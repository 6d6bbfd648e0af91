"""A wheel in new environments: ``python .ci/smoke.py WHEEL [PYTHON ...]``.

For each Python that skdp supports: a new environment, the wheel and what it needs, and
the README's first example in an empty folder, with every warning an error. Then a
model leaves skdp in each form, and ``skdp verify`` checks the ledger and a record.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path

# A model predicts the same after it has left skdp; and its record, for `skdp verify`.
EXPORTS = """
import json
from pathlib import Path
import numpy as np
import pandas as pd
from skdp import DPLogisticRegression
table = pd.DataFrame({"age": np.random.default_rng(0).uniform(17, 90, 500)})
model = DPLogisticRegression(columns={"age": (17, 90)}, classes=[0, 1])
model.fit(table, table["age"] > 50)
Path("record.json").write_text(model.privacy_.to_json())
json.loads(model.to_json())
model.export_predictor("predictor.py")
from predictor import model as exported
wanted = model.predict(table)
assert (exported.predict(table) == wanted).all()
assert (model.export_sklearn().predict(table) == wanted).all()
"""
ROOT = Path(__file__).parents[1]
VERSION = "import sys; print('%d.%d.%d' % sys.version_info[:3])"


def supported() -> list[str]:
    """Minor versions that the package says it is for."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    found = (re.search(r":: (3\.\d+)$", each) for each in project["classifiers"])
    return [each[1] for each in found if each]


def interpreters(minor: str) -> list[str]:
    """Where a Python may be: on the path, or among those of pyenv, newest first."""
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    patches = root.glob(f"versions/{minor}.*/bin/python{minor}")
    newest = sorted(patches, key=lambda each: -int(each.parts[-3].rpartition(".")[2]))
    on_path = shutil.which(f"python{minor}")
    return [*([on_path] if on_path else []), *map(str, newest)]


def runs(python: str) -> str | None:
    """Its version, or None: a name on the path may stand for nothing."""
    try:
        return _ran([python, "-c", VERSION]).strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def first_example() -> str:
    """The first block of Python in the README."""
    text = (ROOT / "README.md").read_text()
    found = re.search(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    assert found
    return found[1]


def tried(python: str, wheel: Path) -> str:
    """What came of it: time, size and "works", or the last line of what failed."""
    begun = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        inside = Path(folder, "environment", "bin", "python")
        pip = [str(inside), "-m", "pip", "--disable-pip-version-check", "-qq"]
        empty = Path(folder, "empty")
        empty.mkdir()
        try:
            _ran([python, "-m", "venv", str(inside.parents[1])])
            _ran([*pip, "install", str(wheel)])
            _ran([*pip, "check"])
            installed = time.perf_counter() - begun
            _ran([str(inside), "-W", "error", "-c", first_example()], empty)
            _ran([str(inside), "-W", "error", "-c", EXPORTS], empty)
            command = str(inside.parent / "skdp")
            _ran([command, "plan", "2000", "30"], empty)
            _ran([command, "verify", "study.db", "record.json"], empty)
        except subprocess.CalledProcessError as error:
            lines = (error.stderr or error.stdout or str(error)).strip().splitlines()
            return f"FAILS: {lines[-1]}"
        whole = time.perf_counter() - begun
        return (
            f"works: installed in {installed:.0f} s, example {whole - installed:.0f} s"
        )


def _ran(command: list[str], where: Path | None = None) -> str:
    # Nothing of the repository may be found by the way.
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        command, cwd=where, env=clean, capture_output=True, text=True, check=True
    )
    return done.stdout


def main(wheel: Path, pythons: list[str]) -> int:
    """Print a line for each Python; 1 if one fails or none was found."""
    places = {each: [each] for each in pythons} or {
        minor: interpreters(minor) for minor in supported()
    }
    print(wheel.name)
    results = []
    for name, found in places.items():
        known = {python: runs(python) for python in found}
        python = next((each for each in found if known[each]), None)
        results.append(tried(python, wheel) if python else "not found")
        version = known[python] if python else name
        print(f"{version:<8} {results[-1]}", flush=True)
    is_lost = bool(pythons) and "not found" in results
    worked = any(each.startswith("works") for each in results)
    failed = any(each.startswith("FAILS") for each in results)
    return int(is_lost or failed or not worked)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve(), sys.argv[2:]))
