"""Data of the examples, with declared schemas."""

from skdp.datasets._adult import ADULT_BOUNDS, ADULT_CATEGORIES, Dataset, load_adult
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
]
