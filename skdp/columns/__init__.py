"""Declarations: what is known about a table before its records are seen.

`Range`, `Categories`, `Boolean` and `Dates` say what a column may hold. For a frame
they stand in a mapping by name; for an array in a sequence by position, or one `Range`
serves all columns. ``(17, 90)`` is short for ``Range(17, 90)``, and
``["Female", "Male"]`` for ``Categories(["Female", "Male"])``.

Declarations are public facts: take them from the questionnaire or the data dictionary,
never from the records. `check` compares cells with their declarations; its result is
not private, and is for those who keep the data.

Examples
--------
>>> from skdp import columns
>>> declared = {"age": columns.Range(17, 90), "sex": ["Female", "Male"]}
>>> text = columns.to_json(declared)
>>> columns.from_json(text)
{'age': Range(17, 90), 'sex': Categories(['Female', 'Male'])}
"""

from skdp.columns._check import Check, check
from skdp.tables._columns import (
    Boolean,
    Categories,
    Dates,
    Declaration,
    Range,
    as_declared,
    from_json,
    from_toml,
    template,
    to_json,
)

__all__ = [
    "Boolean",
    "Categories",
    "Check",
    "Dates",
    "Declaration",
    "Range",
    "as_declared",
    "check",
    "from_json",
    "from_toml",
    "template",
    "to_json",
]
