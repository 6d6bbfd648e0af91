"""
====================
Few features of many
====================

Is a film review good or bad? There are more words than reviews, and a private model
pays for every number that it releases. ``DPSparseLogisticRegression`` selects the words
that stand out from the noise and gives all others a weight of 0. This example compares
it with a private model of all words and with the constant model, over a range of
epsilons, and shows which words were selected.

Noise is drawn anew in every run, so the numbers differ a little each time.
"""

# %%
# The data
# --------
# 25,000 IMDB reviews to train on and 25,000 to test, 26,460 words (Maas et al., 2011),
# from the folder in ``SKDP_DATA_HOME``, or else simulated documents. The next line of
# output says which. Tables stay sparse throughout.
from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # draws to a file; no window needed

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import SGDClassifier

from skdp import DPLogisticRegression, DPSparseLogisticRegression
from skdp.datasets import load_reviews

data = load_reviews()
n, n_words = data.X_train.shape
print(data.source)
print(f"{n:,} reviews to train on, {len(data.y_test):,} to test, {n_words:,} words.\n")

# %%
# What is public, and what is assumed
# -----------------------------------
# The list of words and their frequencies come from other texts, so they are public;
# each row is weighted and scaled to norm 1 by itself. Declared are the labels, the norm
# 1 of rows, and a bound of 0.3 on each entry, which clips a few. A neighbouring data
# set has one review exchanged for any other, and delta is 1 / n^2.
PUBLIC = {"delta": 1 / n**2, "classes": [0, 1]}
EPSILONS = (0.5, 1.0, 2.0, 4.0)
REPEATS = 3


def sparse(epsilon):
    """A weight for at most as many words as stand out from the noise."""
    return DPSparseLogisticRegression(epsilon, feature_bound=0.3, **PUBLIC)


def dense(epsilon):
    """A weight for every word."""
    return DPLogisticRegression(epsilon, **PUBLIC)


# %%
# Accuracy against epsilon
# ------------------------
# **The scores are computed from raw test data. They are not private.**
#
# The constant model predicts the same for every review. Do not publish a private model
# that is no better than this.
results, selected = {}, {}
for name, make in (("few words", sparse), ("all words", dense)):
    for epsilon in EPSILONS:
        repeats = REPEATS if make is sparse else 1
        models = [make(epsilon).fit(data.X_train, data.y_train) for _ in range(repeats)]
        results[name, epsilon] = [
            model.score(data.X_test, data.y_test) for model in models
        ]
        if make is sparse:
            selected[epsilon] = models[0]
    print(f"{name}: fits for {len(EPSILONS)} epsilons done", flush=True)

not_private = SGDClassifier(loss="log_loss", penalty="l1", alpha=1e-5, random_state=0)
reference = not_private.fit(data.X_train, data.y_train).score(data.X_test, data.y_test)
constant = max(data.y_test.mean(), 1 - data.y_test.mean())

print(f"\nTest accuracy on {data.name}, replace_one, delta={PUBLIC['delta']:.1g}")
print(f"  {'':<28}" + "".join(f"epsilon={epsilon:<8g}" for epsilon in EPSILONS))
for name in ("few words", "all words"):
    cells = ""
    for epsilon in EPSILONS:
        runs = np.array(results[name, epsilon])
        error = ""
        if len(runs) > 1:
            error = f" ±{runs.std(ddof=1) / np.sqrt(len(runs)):.4f}"
        cells += f"{f'{runs.mean():.4f}{error}':<16}"
    print(f"  {name:<28}{cells.rstrip()}")
print(f"  {'constant':<28}{constant:.4f}")
print(f"  {'L1 penalty, not private':<28}{reference:.4f}")

# %%
# Which words
# -----------
# The selection is part of the release: `get_support` reads it from the coefficients.
# The largest number of words follows from the number of reviews and the budget, or is
# ``n_nonzero_coefs``.
MOST = 12
model = selected[1.0]
chosen = model.get_support(indices=True)
weights = model.coef_[0, chosen]
order = np.argsort(weights)
bad = [data.words[chosen[i]] for i in order[:MOST] if weights[i] < 0]
good = [data.words[chosen[i]] for i in order[::-1][:MOST] if weights[i] > 0]
print(f"\nepsilon=1: {len(chosen)} of {n_words:,} words have a weight")
print(f"  for bad:  {', '.join(bad)}")
print(f"  for good: {', '.join(good)}")
print(
    "  "
    + "; ".join(
        f"epsilon={e:g}: {m.get_support().sum()} words" for e, m in selected.items()
    )
)

# %%
# The statement
# -------------
print(f"\n{model.privacy_}")

# %%
# The picture
# -----------
folder = Path("demo")
folder.mkdir(exist_ok=True)
figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.8), layout="constrained")
STYLES = {
    "few words": {"color": "#1f5fa8", "marker": "o"},
    "all words": {"color": "#d1622b", "marker": "s"},
}
for name, style in STYLES.items():
    runs = [results[name, epsilon] for epsilon in EPSILONS]
    means = [np.mean(values) for values in runs]
    errors = [
        np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0
        for values in runs
    ]
    left.errorbar(EPSILONS, means, errors, label=name, capsize=3, **style)
left.axhline(constant, color="0.4", linestyle="--", label="constant")
left.axhline(reference, color="0.4", linestyle=":", label="L1 penalty, not private")
left.set_xscale("log")
left.set_xticks(EPSILONS, [f"{epsilon:g}" for epsilon in EPSILONS])
left.minorticks_off()
left.set_xlabel("epsilon, logarithmic (delta = 1/n²)")
left.set_ylabel("test accuracy")
left.grid(axis="y", color="0.92")
left.legend(loc="lower right", bbox_to_anchor=(1, 0.07))  # above the constant's line

shown = np.concatenate([order[:MOST], order[max(len(order) - MOST, MOST) :]])
colors = np.where(weights[shown] > 0, "#2f7d4f", "#a33b3b")
right.barh(np.arange(len(shown)), weights[shown], color=colors)
right.set_yticks(np.arange(len(shown)), [data.words[i] for i in chosen[shown]])
right.tick_params(axis="y", labelsize=7)
right.set_xlabel("weight in the model of epsilon = 1")
right.set_title("Words selected, the strongest of either sign", fontsize=10)
for axes in (left, right):
    axes.spines[["top", "right"]].set_visible(False)
figure.suptitle(f"{data.name}: few words of {n_words:,}, replace_one")
figure.savefig(folder / "few_features.png", dpi=150)
print(f"\nPicture: {folder / 'few_features.png'}")
