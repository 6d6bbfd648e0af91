"""How the site is built: `make docs`. Needs no network."""

from __future__ import annotations

import inspect
import os
import sys
import tomllib
import warnings
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parent
sys.path[:0] = [str(ROOT), str(HERE)]

# Beside this file, and above it: found only now, which is why they come late (E402).
import _links  # noqa: E402
import _reference  # noqa: E402

import skdp  # noqa: E402

# numpydoc says so of sections of ours where it lists members; the pages show them.
warnings.filterwarnings("ignore", message="Unknown section")

project = "skdp"
author = "the skdp developers"
copyright = "the skdp developers, BSD 3-Clause"
version = release = skdp.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["_build", "gallery/GALLERY_HEADER.rst", "**/sg_execution_times.rst"]
nitpicky = False  # types in docstrings are words, as numpydoc has them

# Pages -------------------------------------------------------------------------------
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence", "attrs_block"]

# Reference ---------------------------------------------------------------------------
_reference.write(HERE / "reference")
autosummary_generate = True
autodoc_typehints = "none"  # numpydoc has them in words
toc_object_entries_show_parents = "hide"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False  # the template lists them
templates_path = ["_templates"]

# Examples ----------------------------------------------------------------------------
sphinx_gallery_conf = {
    "examples_dirs": str(ROOT / "examples"),
    "gallery_dirs": "gallery",
    "filename_pattern": os.environ.get("SKDP_DOCS_EXAMPLES", r"/plot_"),
    "abort_on_example_error": True,
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
    "show_signature": False,
    "image_scrapers": ("matplotlib",),
    "within_subsection_order": "FileNameSortKey",
    "backreferences_dir": None,
}

URLS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]

# Look --------------------------------------------------------------------------------
html_theme = "pydata_sphinx_theme"
html_title = "skdp"
html_static_path = ["_static"]
html_css_files = ["skdp.css"]
html_context = {"default_mode": "auto"}
html_copy_source = False
html_show_sourcelink = False
html_sidebars = {"index": []}
html_theme_options = {
    "navigation_with_keys": False,
    "show_nav_level": 1,
    "show_toc_level": 2,
    "header_links_before_dropdown": 6,
    "icon_links": [
        {"name": "Source", "url": URLS["Source"], "icon": "fa-brands fa-github"}
    ],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "default",
    "pygments_dark_style": "github-dark",
}


def setup(app: Any) -> None:
    """Links to files of the repository, and to names of scikit-learn."""
    app.connect("source-read", _links.outside)
    app.connect("missing-reference", _links.to_scikit_learn)
    app.connect("autodoc-skip-member", _skipped)
    # Before numpydoc reads them.
    app.connect("autodoc-process-docstring", _links.plain, priority=100)


def _skipped(
    app: Any, kind: str, name: str, obj: Any, skip: bool, options: Any
) -> bool | None:
    """What scikit-learn's base classes bring is in scikit-learn's reference."""
    module = getattr(inspect.unwrap(obj), "__module__", "") if callable(obj) else ""
    return True if str(module).startswith("sklearn.") else None
