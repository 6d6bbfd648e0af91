"""By what, with what and when a saved table was made."""

from __future__ import annotations

import platform
from datetime import UTC, datetime

import numpy as np

import skdp


def provenance(command: str, runs: int) -> str:
    """The first lines of a saved table, as comments.

    Parameters
    ----------
    command : str
        What makes the table, without the number of runs.
    runs : int
        Runs of a line; their seeds are 0, 1, ...
    """
    made = {
        "command": f"{command} --runs {runs}",
        "seeds": f"0 to {runs - 1}",
        "versions": f"skdp {skdp.__version__}, NumPy {np.__version__}, Python "
        + platform.python_version(),
        "date": datetime.now(UTC).date().isoformat(),
    }
    return "\n".join(f"# {key}: {value}" for key, value in made.items())
