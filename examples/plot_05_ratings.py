"""
================
Ratings of films
================

Which films will a user like? ``DPMatrixFactorization`` learns from ratings and
protects one of two things: the *value* of each rating, with who rated what public, or
*all ratings of a user*. This example compares both with the model without privacy, over
a range of epsilons, and recommends films.

Noise is drawn anew in every run, so the numbers differ a little each time.
"""

# %%
# The data
# --------
# 100,000 ratings of 1 to 5 stars (MovieLens), of which 20,000 are kept for testing,
# from the folder in ``SKDP_DATA_HOME``, or else simulated ratings. X has two columns,
# the ids of users and of films, and y holds the stars.
import math
import warnings
from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # draws to a file; no window needed

import matplotlib.pyplot as plt
import numpy as np

from skdp import DPMatrixFactorization
from skdp.datasets import load_movielens
from skdp.exceptions import NoiseDominatesWarning

data = load_movielens()
X, y = data.X_train, data.y_train
users, films = (np.unique(column) for column in X.T)
print(data.source)
print(f"{len(y):,} ratings by {len(users):,} users of {len(films):,} films\n")


def error(model):
    """Root mean square error in stars, from raw test data: not private."""
    residuals = np.clip(model.predict(data.X_test), 1, 5) - data.y_test
    return math.sqrt(np.mean(residuals**2))


# %%
# Without privacy
# ---------------
# ``epsilon=inf`` adds no noise, and a seed makes the results reproducible.
plain = DPMatrixFactorization(math.inf, rating_bounds=(1, 5), random_state=0).fit(X, y)
biases = DPMatrixFactorization(
    math.inf, rating_bounds=(1, 5), n_components=0, random_state=0
).fit(X, y)
mean = math.sqrt(np.mean((data.y_test - y.mean()) ** 2))

# %%
# One rating's value
# ------------------
# Who rated what is public, and helps: if the same people rate two films, the films have
# something in common. The bounds of the ratings are declared.
EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)


def by_value(epsilon):
    """Protects the value of each rating."""
    return DPMatrixFactorization(
        epsilon,
        delta=1 / len(y) ** 2,
        privacy_unit="rating_value",
        rating_bounds=(1, 5),
    ).fit(X, y)


# %%
# All ratings of a user
# ---------------------
# The catalogue and the number of users are declared too. The released model has factors
# of films only. Each user's device computes the factors of its user from this user's
# ratings (`fold_in`); nobody else may see them, because they have no noise.
catalogue = np.unique(np.concatenate([films, data.X_test[:, 1]]))


def by_user(epsilon):
    """Protects all ratings of a user, whose device folds them in."""
    model = DPMatrixFactorization(
        epsilon,
        privacy_unit="user",
        rating_bounds=(1, 5),
        n_users=len(users),
        item_ids=catalogue,
    ).fit(X, y)
    return model.fold_in(X, y), model


# %%
# Errors against epsilon
# ----------------------
# **These errors are computed from raw test data. They are not private.**
#
# 943 users are few: biases without privacy predict better than a model that protects
# values at an epsilon below 3, or users at an epsilon below 20. On MovieLens 1M, with
# 6040 users, protected values are better than these biases before epsilon 1, and
# protected users soon after 4 (docs/guide/ratings.md).
results = {"value": {}, "user": {}}
# With so few users, fits warn at the smallest epsilons that noise dominates.
warnings.simplefilter("ignore", NoiseDominatesWarning)
for epsilon in EPSILONS:
    released = by_value(epsilon)
    local, model = by_user(epsilon)
    results["value"][epsilon] = error(released)
    results["user"][epsilon] = error(local)
    print(
        f"epsilon={epsilon:<4g}  one rating's value {results['value'][epsilon]:.4f}   "
        f"all of a user's ratings {results['user'][epsilon]:.4f}",
        flush=True,
    )
print(
    f"\nnot private: {error(plain):.4f}; biases alone, not private: "
    f"{error(biases):.4f}; mean of all ratings: {mean:.4f}\n"
)

# %%
# Recommendations
# ---------------
# Films that the user has rated are left out.
user = users[len(users) // 2]
for name, known in (("not private", plain), (f"epsilon={epsilon:g}", released)):
    best = [data.titles.get(int(i), f"film {i}") for i in known.recommend(user, k=3)]
    print(f"for user {user}, {name}: " + "; ".join(best))

# %%
# The statements
# --------------
print(f"\n{released.privacy_}\n\n{model.privacy_.statement()}")

# %%
# The picture
# -----------
folder = Path("demo")
folder.mkdir(exist_ok=True)
figure, axes = plt.subplots(figsize=(7.5, 4.8), layout="constrained")
STYLES = {
    "value": ("one rating's value", {"color": "#1f5fa8", "marker": "o"}),
    "user": ("all ratings of a user, folded in", {"color": "#d1622b", "marker": "s"}),
}
for key, (label, style) in STYLES.items():
    axes.plot(EPSILONS, list(results[key].values()), label=label, **style)
for level, line, label in (
    (error(plain), ":", "not private"),
    (error(biases), "--", "biases alone, not private"),
    (mean, "-.", "mean of all ratings"),
):
    axes.axhline(level, color="0.4", linestyle=line, label=label)
axes.set_xscale("log")
axes.set_xticks(EPSILONS, [f"{epsilon:g}" for epsilon in EPSILONS])
axes.minorticks_off()
axes.set_xlabel("epsilon, logarithmic (delta: 1/n² for ratings, 1e-6 for users)")
axes.set_ylabel("root mean square error in stars, test")
axes.grid(axis="y", color="0.92")
axes.legend(fontsize=9)
axes.spines[["top", "right"]].set_visible(False)
axes.set_title(f"{data.name}: what is protected, and what it costs", fontsize=11)
figure.savefig(folder / "ratings.png", dpi=150)
print(f"\nPicture: {folder / 'ratings.png'}")
