"""The version of skdp, in a module that imports nothing."""

from __future__ import annotations

__version__ = "1.0.0rc2"
