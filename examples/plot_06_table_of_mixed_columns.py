"""
========================
A table of mixed columns
========================

A table has ages, amounts and categories. Declare each column once, and a private model
takes the table as it is. This example fits straight lines and curves over a range of
epsilons, and shows what each age and each year of school adds to the decision of a
private model.

Noise is drawn anew in every run, so the numbers differ a little each time.
"""

# %%
# The data
# --------
# Adult (UCI, 1996): does a person earn more than 50,000 dollars a year? From the folder
# in ``SKDP_DATA_HOME`` or from OpenML. Without both, scikit-learn's digits take their
# place (is a digit odd?), and the next line of output says so.
from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # draws to a file; no window needed

import matplotlib.pyplot as plt
import numpy as np

from skdp import DPLogisticRegression, TableEncoder, columns, privacy_report
from skdp.datasets import ADULT_BOUNDS, ADULT_CATEGORIES, load_adult

print("Loading data (waits at most 20 seconds for OpenML) ...", flush=True)
data = load_adult()
print(data.source)
print(f"{len(data.X_train)} records to train on, {len(data.X_test)} to test.\n")

# %%
# What is declared
# ----------------
# ``columns.template`` prints a mapping to fill in, from names and types only. Fill it
# in from the documentation of the data, never from the records: a pair of numbers is a
# range, a list of strings the categories. "?" is not declared here, so it counts as
# none of the categories.
print(str(columns.template(data.X_train.iloc[:, :4])), "\n")
if data.name == "adult":
    declared = ADULT_BOUNDS | ADULT_CATEGORIES
    shown = ("age", "education-num")
else:
    declared = {name: (0, 16) for name in data.X_train}  # grey levels of the scanner
    shown = tuple(data.X_train.columns[[20, 42]])

# %%
# What it will cost
# -----------------
# Declarations cost nothing, because each row is encoded by itself, by declared rules:
# the model has the whole epsilon. The report needs no data.
#
# With declarations a model fits curves, as fine as its noise allows. Pass a
# ``TableEncoder`` instead to choose another encoding.
DELTA = min(1e-6, 1 / len(data.X_train) ** 2)
PUBLIC = {"delta": DELTA, "classes": [0, 1]}
EPSILONS = (0.1, 0.3, 1.0, 3.0)
REPEATS = 3


COLUMNS = {"hats": declared, "linear": TableEncoder(declared, numeric="linear")}


def model_of(epsilon, numeric):
    """A neighbouring data set has one record exchanged."""
    return DPLogisticRegression(epsilon, columns=COLUMNS[numeric], **PUBLIC)


print(privacy_report(model_of(1.0, "hats")))

# %%
# Accuracy against epsilon
# ------------------------
# **The scores are computed from raw test data. They are not private.**
#
# "linear" gives each number one weight. "hats" gives it a curve: a strong linear part,
# and piecewise linear functions whose weights are smaller the finer they are, so that
# noise does not hide the coarse shape.
NAMES = {"hats": "curves (hats, the default)", "linear": "straight lines"}
results, models = {}, {}
for numeric, name in NAMES.items():
    for epsilon in EPSILONS:
        fits = [
            model_of(epsilon, numeric).fit(data.X_train, data.y_train)
            for _ in range(REPEATS)
        ]
        scores = [model.score(data.X_test, data.y_test) for model in fits]
        results[numeric, epsilon], models[numeric, epsilon] = scores, fits[0]
    print(f"{name}: fits for {len(EPSILONS)} epsilons done", flush=True)
constant = max(data.y_test.mean(), 1 - data.y_test.mean())

print(f"\nTest accuracy on {data.name}, replace_one, delta={DELTA:.1g}")
print(f"  {'':<28}" + "".join(f"epsilon={epsilon:<8g}" for epsilon in EPSILONS))
for numeric, name in NAMES.items():
    cells = ""
    for epsilon in EPSILONS:
        runs = np.array(results[numeric, epsilon])
        cells += f"{f'{runs.mean():.4f} ±{runs.std(ddof=1) / REPEATS**0.5:.4f}':<16}"
    print(f"  {name:<28}{cells.rstrip()}")
print(f"  {'constant':<28}{constant:.4f}")

# %%
# What the model says
# -------------------
# ``effects`` turns weights into one curve or table for each original column, with the
# noise in it. It is computed from released numbers, so it costs nothing.
model = models["hats", 1.0]
print(f"\n{model.privacy_}")
print(f"\n{model.effects()[shown[0]].iloc[::8].round(3).to_string(index=False)}")

# %%
# The picture
# -----------
folder = Path("demo")
folder.mkdir(exist_ok=True)
figure, axes = plt.subplots(1, 3, figsize=(13, 4.2), layout="constrained")
STYLES = {"hats": ("#1f5fa8", "o"), "linear": ("#d1622b", "s")}
for numeric, (color, marker) in STYLES.items():
    runs = np.array([results[numeric, epsilon] for epsilon in EPSILONS])
    axes[0].errorbar(
        EPSILONS,
        runs.mean(axis=1),
        yerr=runs.std(axis=1, ddof=1) / REPEATS**0.5,
        color=color,
        marker=marker,
        capsize=3,
        label=NAMES[numeric],
    )
axes[0].axhline(constant, color="0.5", linestyle=":", label="constant")
axes[0].set(
    xscale="log",
    xlabel="epsilon",
    ylabel="accuracy on raw test data",
    title=f"{data.name}: mean of {REPEATS} fits, with its standard error",
)
axes[0].set_xticks(EPSILONS, [f"{epsilon:g}" for epsilon in EPSILONS])
axes[0].minorticks_off()
axes[0].legend()
model.plot_effects(shown, ax=axes[1:])
figure.savefig(folder / "table.png", dpi=150)
print(f"\nPicture: {folder / 'table.png'}")
