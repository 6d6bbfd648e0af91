"""
==================
Shapes of boosting
==================

Private boosted trees for a table of mixed columns can be drawn: with trees of at most
two columns the model is exactly a sum of curves and heat maps. This example compares it
with a linear model over a range of epsilons, then draws what it has learned with bands
of the privacy noise, and once more with directions that are known beforehand.

Noise is drawn anew in every run, so the numbers differ a little each time.
"""

# %%
# The data
# --------
# Adult (UCI, 1996): does a person earn more than 50,000 dollars a year? From the folder
# in ``SKDP_DATA_HOME`` or from OpenML. Without both, scikit-learn's digits take their
# place (is a digit odd?), and the next line of output says so.
import time
from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # draws to a file; no window needed

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import log_loss, roc_auc_score

from skdp import DPGradientBoostingClassifier, DPLogisticRegression
from skdp.datasets import ADULT_BOUNDS, ADULT_CATEGORIES, load_adult

print("Loading data (waits at most 20 seconds for OpenML) ...", flush=True)
data = load_adult()
print(data.source)
print(f"{len(data.X_train)} records to train on, {len(data.X_test)} to test.\n")

# %%
# What is declared
# ----------------
# The splits of trees are random, and depend only on the declarations and on released
# numbers. A direction is declared too: more years of school never lower the prediction
# if everything else stays the same.
if data.name == "adult":
    declared = ADULT_BOUNDS | ADULT_CATEGORIES
    directions = {"education-num": 1, "hours-per-week": 1}
    shown = ["age", "education-num", "hours-per-week"]
    pair = ("age", "education-num")
else:
    declared = {name: (0, 16) for name in data.X_train}  # grey levels of the scanner
    names = [str(name) for name in data.X_train.columns]
    directions = {names[20]: 1}
    shown = [names[20], names[42], names[28]]
    pair = (names[20], names[42])

# %%
# Against a linear model
# ----------------------
# **The scores are computed from raw test data. They are not private.**
#
# Boosting begins with a linear model, and grows trees if there are enough records and
# the first trees help. By default trees use two columns and all columns in turn. With
# ``max_interaction=2`` no tree uses more than two columns, so that the model is a sum
# of curves and heat maps.
DELTA = min(1e-6, 1 / len(data.X_train) ** 2)
PUBLIC = {"delta": DELTA, "classes": [0, 1], "columns": declared, "verbose": 0}
EPSILONS = (0.5, 1.0, 4.0)
REPEATS = 2
MODELS = {
    "linear model": lambda epsilon: DPLogisticRegression(epsilon, **PUBLIC),
    "boosting": lambda epsilon: DPGradientBoostingClassifier(epsilon, **PUBLIC),
    "boosting, pairs": lambda epsilon: DPGradientBoostingClassifier(
        epsilon, max_interaction=2, **PUBLIC
    ),
    "boosting, pairs, directions": lambda epsilon: DPGradientBoostingClassifier(
        epsilon, max_interaction=2, monotonic_cst=directions, **PUBLIC
    ),
}
print(f"Test AUC / log-loss on {data.name}, replace_one, mean of {REPEATS} fits")
print(f"  {'':<28}" + "".join(f"epsilon={epsilon:<10g}" for epsilon in EPSILONS))
kept = {}
for name, model_of in MODELS.items():
    cells, started = "", time.perf_counter()
    for epsilon in EPSILONS:
        fits = [
            model_of(epsilon).fit(data.X_train, data.y_train) for _ in range(REPEATS)
        ]
        proba = [model.predict_proba(data.X_test)[:, 1] for model in fits]
        auc = np.mean([roc_auc_score(data.y_test, p) for p in proba])
        loss = np.mean([log_loss(data.y_test, p) for p in proba])
        cells += f"{f'{auc:.4f} / {loss:.3f}':<18}"
        kept[name, epsilon] = fits[0]
    seconds = (time.perf_counter() - started) / len(EPSILONS) / REPEATS
    print(f"  {name:<28}{cells}{seconds:.1f} s a fit", flush=True)

# %%
# What the model says
# -------------------
# Shapes are computed from released numbers, so they cost nothing. A band is two
# standard deviations of the privacy noise: it shows how much of a curve may be noise,
# and not how far it is from the truth. If the first trees do not help, the model stays
# linear and has curves only; this happens often here, more often at a smaller epsilon.
model = kept["boosting, pairs", 4.0]
functions = model.shape_functions_
print(f"\n{model.privacy_}")
print(f"\nIntercept {functions.intercept[0]:.3f}, and of {shown[0]}:")
print(functions.curve(shown[0]).round(3).iloc[::16].to_string(index=False))
importances = sorted(
    zip(model.feature_importances_, map(str, model.feature_names_in_), strict=True)
)
print("\nShares of the variance of raw predictions:")
for share, name in importances[:-6:-1]:
    print(f"  {name:<20}{share:.3f}")

# %%
# The picture
# -----------
# The upper row shows the model, the lower row the model with directions. Grey bars show
# how many records there are. A model with trees has a heat map of a pair too.
folder = Path("demo")
folder.mkdir(exist_ok=True)
figure = plt.figure(figsize=(14, 7.2), layout="constrained")
rows = {
    "epsilon 4": model,
    f"epsilon 4, rising: {' and '.join(directions)}": kept[
        "boosting, pairs, directions", 4.0
    ],
}
for part, (title, one) in zip(figure.subfigures(2), rows.items(), strict=True):
    part.suptitle(title)
    has_trees = any(len(shape.columns) == 2 for shape in one.shape_functions_)
    drawn = [*shown, pair] if has_trees else shown
    one.plot_effects(drawn, ax=part.subplots(1, len(drawn)))
figure.savefig(folder / "shapes.png", dpi=120)
print(f"\nPicture: {folder / 'shapes.png'}")

# %%
# The model as JSON
# -----------------
# The file can be read without skdp. It has the columns with the ends of their
# intervals, the trees as nested questions, and the privacy statement.
(folder / "shapes.json").write_text(model.to_json())
print(f"Model: {folder / 'shapes.json'}")
