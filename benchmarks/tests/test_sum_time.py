"""The timing of sums: one small case, against this checkout itself."""

from __future__ import annotations

from pathlib import Path

from benchmarks import sum_time


def test_a_checkout_is_as_fast_as_itself_and_sums_alike(capsys):
    here = Path(sum_time.__file__).parents[1]
    arguments = [str(here), "--rounds", "1", "--cases", "moments, 36,177 x 104"]
    sum_time.main(arguments)
    told = capsys.readouterr().out
    assert "moved by 0.0e+00 of the noise" in told
    assert told.startswith("moments, 36,177 x 104: ")


def test_every_case_has_its_sum():
    assert all(f'"{case}"' in sum_time._SUM for case in sum_time.CASES)
