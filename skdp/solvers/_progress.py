"""How far a fit is, in lines or as a bar: public counts, and no times."""

from __future__ import annotations

from typing import Any

from skdp.privacy._owners import is_rehearsing

# Without tqdm's times and rates: how long steps take may tell of the records.
_BAR = "{desc}: {percentage:3.0f}%|{bar}| {n_fmt} of {total_fmt}"


class Progress:
    """Reports how far a solver is: public step counts, nothing from the data.

    A bar where tqdm is installed, and lines elsewhere and for notes.

    Parameters
    ----------
    label : str
        What is being fitted.
    verbose : bool
        Whether to say anything.
    """

    def __init__(self, label: str = "", verbose: bool = False) -> None:
        self._label, self._verbose = label, verbose
        self._bar: Any = None

    def is_due(self, done: int, total: int) -> bool:
        """Whether `step` shows something: about 20 times a run, if at all."""
        if is_rehearsing():
            return False
        return self._verbose and (done == total or done % max(1, -(-total // 20)) == 0)

    def step(self, done: int, total: int, note: str = "") -> None:
        """Say that `done` of `total` steps are finished; a note if nothing is private.

        Parameters
        ----------
        done, total : int
        note : str, default=""
            Must not depend on private data.
        """
        if not self.is_due(done, total):
            return
        if note or not self._draw(done, total):
            print(f"[{self._label}] step {done} of {total}{note}", flush=True)

    def _draw(self, done: int, total: int) -> bool:
        """Move the bar, and end it with the last step; False without tqdm."""
        try:
            from tqdm.auto import tqdm
        except ImportError:
            return False
        if self._bar is None:
            # Drawn at every step that is due, not by the clock.
            self._bar = tqdm(
                total=total,
                desc=self._label,
                bar_format=_BAR,
                mininterval=0,
                miniters=1,
            )
        self._bar.n = done
        self._bar.refresh()
        if done == total:
            self._bar.close()
            self._bar = None
        return True
