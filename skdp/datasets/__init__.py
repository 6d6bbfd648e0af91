"""Data for examples and benchmarks: real ones with declared schemas, and made up."""

from skdp.datasets._adult import ADULT_BOUNDS, ADULT_CATEGORIES, Dataset, load_adult
from skdp.datasets._made_up import write_made_up
from skdp.datasets._movielens import FilmRatings, load_movielens
from skdp.datasets._reviews import Reviews, load_reviews

__all__ = [
    "ADULT_BOUNDS",
    "ADULT_CATEGORIES",
    "Dataset",
    "FilmRatings",
    "Reviews",
    "load_adult",
    "load_movielens",
    "load_reviews",
    "write_made_up",
]
