"""
==================
Which solver, when
==================

``solver="auto"`` picks an algorithm from public facts alone: the number of records and
features, the budget, the loss. This example fits every solver that applies to the same
data, over a range of epsilons, and asks two questions: does "auto" choose well, and
what does a guarantee with delta=0 cost? Shorter parts count how many fits of each
solver a ledger allows, fit a support vector machine, and fit a regression.

Noise is drawn anew in every run, so the numbers differ a little each time.
"""

# %%
# The data
# --------
# The census data "Adult" of the first example, or else scikit-learn's digits (is a
# digit odd?); the next line of output says which.
from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # draws to a file; no window needed

import matplotlib.pyplot as plt
import numpy as np
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import accuracy_score, log_loss, r2_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

from skdp import (
    BoundedScaler,
    BudgetExceeded,
    BudgetLedger,
    DeclaredOneHotEncoder,
    DPLinearRegression,
    DPLinearSVC,
    DPLogisticRegression,
    RowNormClipper,
)
from skdp.datasets import ADULT_BOUNDS, ADULT_CATEGORIES, load_adult

print("Loading data (waits at most 20 seconds for OpenML) ...", flush=True)
data = load_adult()
print(data.source)
print(f"{len(data.X_train)} records to train on, {len(data.X_test)} to test.\n")

# %%
# What is public, and what is assumed
# -----------------------------------
# Declared, from the documentation of the data and not from the data: the bounds of the
# numbers, the categories, the labels 0 and 1. Assumed to be public: the number of
# records and the names of the columns. Everything else is private, and a neighbouring
# data set has one record exchanged for any other (``adjacency="replace_one"``).
#
# Each row is transformed on its own, by these declared rules, so one transformation
# serves all fits.
if data.name == "adult":
    declared = make_column_transformer(
        (BoundedScaler(ADULT_BOUNDS), list(ADULT_BOUNDS)),
        (DeclaredOneHotEncoder(ADULT_CATEGORIES), list(ADULT_CATEGORIES)),
    )
    steps = make_pipeline(declared, RowNormClipper(1.0))
else:
    steps = BoundedScaler(bounds=(0, 16))  # grey levels of the scanner
X_train, X_test = steps.fit_transform(data.X_train), steps.transform(data.X_test)

# %%
# Classification: every solver, every epsilon
# -------------------------------------------
# ``adassp`` is missing because it solves least squares only; some solvers close to
# those shown are missing too (``heavy_ball``, ``multistage``, ``noisy_sgd``,
# ``online``). The last line has delta=0, a guarantee that cannot fail; ``noisy_gd``
# cannot give it, so "auto" chooses among the others.
#
# **The scores are computed from raw test data. They are not private**, and neither is a
# solver that you choose by them. "auto" looks at no data.
DELTA = min(1e-6, 1 / len(data.X_train) ** 2)
EPSILONS = (0.1, 0.3, 1.0, 3.0)
REPEATS = 3
SETTINGS = {
    "auto": {"solver": "auto", "delta": DELTA},
    "noisy_gd": {"solver": "noisy_gd", "delta": DELTA},
    "nesterov": {"solver": "nesterov", "delta": DELTA},
    "bolt_on": {"solver": "bolt_on", "delta": DELTA},
    "objective_perturbation": {"solver": "objective_perturbation", "delta": DELTA},
    "output_perturbation": {"solver": "output_perturbation", "delta": DELTA},
    "auto, delta=0": {"solver": "auto", "delta": 0},
}


def scores(model):
    """Accuracy and log-loss on the test data. Not private."""
    accuracy = accuracy_score(data.y_test, model.predict(X_test))
    return accuracy, log_loss(data.y_test, model.predict_proba(X_test))


results, picked = {}, {}
for setting, arguments in SETTINGS.items():
    for epsilon in EPSILONS:
        runs = []
        for _ in range(REPEATS):
            model = DPLogisticRegression(epsilon, classes=[0, 1], **arguments)
            runs.append(scores(model.fit(X_train, data.y_train)))
        results[setting, epsilon] = np.array(runs)
        picked[setting, epsilon] = model.privacy_
    print(f"{setting}: {REPEATS * len(EPSILONS)} fits done", flush=True)

# A weak penalty, as the private fits have none by default.
not_private = LogisticRegression(C=100.0, max_iter=2000).fit(X_train, data.y_train)
reference = scores(not_private)


def summary(runs):
    """Means and standard errors of the columns."""
    return runs.mean(axis=0), runs.std(axis=0, ddof=1) / np.sqrt(len(runs))


print(f"\nLogistic regression on {data.name}, replace_one, delta={DELTA:.1g} unless 0")
print(f"Mean and standard error of {REPEATS} fits")
for column, title in enumerate(("test accuracy", "test log-loss")):
    print(f"  {title:<30}" + "".join(f"epsilon={e:<9g}" for e in EPSILONS))
    for setting in SETTINGS:
        cells = ""
        for epsilon in EPSILONS:
            mean, error = summary(results[setting, epsilon])
            cells += f"{mean[column]:.4f} ±{error[column]:.4f}   "
        print(f"  {setting:<30}{cells.rstrip()}")
    print(f"  {'not private':<30}{reference[column]:.4f}")

# %%
# Why "auto" chose what it chose
# ------------------------------
# With few records for the budget, a short noisy descent is best; with more, one exact
# minimisation of a randomly perturbed objective is as accurate and takes fewer passes
# over the data. The reason is part of the privacy statement.
print('\nWhat "auto" chose, and why')
for setting in ("auto", "auto, delta=0"):
    for epsilon in EPSILONS:
        privacy = picked[setting, epsilon]
        print(f"  {setting}, epsilon={epsilon:g}: {privacy.solver}")
        print(f"    {privacy.why_solver}")

# %%
# Several fits under one cap
# --------------------------
# A single fit costs the epsilon that it asks for, whatever the solver. In a ledger the
# solvers differ: it charges Gaussian releases exactly, and objective perturbation by an
# upper bound. Name ``noisy_gd`` if many fits share a budget. (This example deletes its
# ledgers; never delete the ledger of real data.)
CAP, MOST = 3.0, 10
folder = Path("demo")
folder.mkdir(exist_ok=True)
print(f"\nFits of epsilon=1 that a ledger with epsilon={CAP:g} allows, {MOST} at most")
for solver in ("noisy_gd", "objective_perturbation", "output_perturbation"):
    path = folder / f"demo_ledger_{solver}.db"
    path.unlink(missing_ok=True)
    label = f"{data.name}, {solver}"
    ledger = BudgetLedger(path, epsilon=CAP, delta=DELTA, dataset=label)
    model = DPLogisticRegression(
        1.0, delta=DELTA, classes=[0, 1], solver=solver, ledger=ledger
    )
    fits = 0
    try:
        while fits < MOST:
            model.fit(X_train, data.y_train)
            fits += 1
    except BudgetExceeded:
        pass  # refused before anything was read or spent
    print(f"  {solver:<30}{fits}")

# %%
# A support vector machine
# ------------------------
# The rules are the same for another loss. The private hinge loss is smooth; that of
# scikit-learn has a corner.
svc = DPLinearSVC(1.0, delta=DELTA, classes=[0, 1]).fit(X_train, data.y_train)
sharp = LinearSVC(loss="hinge", max_iter=20_000).fit(X_train, data.y_train)
print(f"\nLinear SVC, epsilon=1, test accuracy {svc.score(X_test, data.y_test):.4f}")
print(f"  not private {sharp.score(X_test, data.y_test):.4f}")
print(f"  {svc.privacy_.solver}: {svc.privacy_.why_solver}")

# %%
# A regression
# ------------
# The progress of diabetes in 442 patients: with so few records privacy costs much
# accuracy. Targets are clipped to declared bounds, 0 to 350, the range of the score.
# The bounds of the ten measurements are medically plausible values, wider than the
# data.
#
# The constant model predicts the same number for everyone. It is not private here, and
# stands for "no model at all".
DIABETES_BOUNDS = {
    "age": (18, 90),
    "sex": (1, 2),
    "bmi": (15, 50),
    "bp": (50, 150),
    "s1": (80, 350),  # total cholesterol, mg/dl
    "s2": (30, 250),  # low-density lipoproteins, mg/dl
    "s3": (15, 110),  # high-density lipoproteins, mg/dl
    "s4": (1, 10),  # total cholesterol / high-density lipoproteins
    "s5": (3, 7),  # logarithm of triglycerides
    "s6": (50, 150),  # glucose, mg/dl
}
SPLITS = 10

X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)


def regression(epsilon, solver):
    """The pipeline with a private last step, not yet fitted."""
    last = DPLinearRegression(
        epsilon, delta=DELTA, target_bounds=(0, 350), solver=solver
    )
    return make_pipeline(BoundedScaler(DIABETES_BOUNDS), last)


r2 = {}
for seed in range(SPLITS):
    X_fit, X_new, y_fit, y_new = train_test_split(X, y, random_state=seed)
    for epsilon in (1.0, 3.0):
        for solver in ("auto", "adassp"):
            fitted = regression(epsilon, solver).fit(X_fit, y_fit)
            name = f"{solver}, epsilon={epsilon:g}"
            r2.setdefault(name, []).append(r2_score(y_new, fitted.predict(X_new)))
            if solver == "auto":
                privacy = fitted[-1].privacy_
    constant = np.full(len(y_new), y_fit.mean())
    r2.setdefault("constant, not private", []).append(r2_score(y_new, constant))
    full = LinearRegression().fit(X_fit, y_fit)
    r2.setdefault("not private", []).append(r2_score(y_new, full.predict(X_new)))

print(f"\nLinear regression on diabetes, replace_one, R2 over {SPLITS} splits")
for name, runs in r2.items():
    mean, error = summary(np.array(runs))
    print(f"  {name:<30}{mean:7.4f} ±{error:.4f}")
print(f"  auto is {privacy.solver}: {privacy.why_solver}")
print("\nThese scores read raw test data: they are not private.")

# %%
# The picture
# -----------
figure, both = plt.subplots(1, 2, figsize=(10, 4.6), layout="constrained")
STYLES = {
    "auto": {"color": "0.1", "marker": "o", "linewidth": 3, "alpha": 0.5},
    "noisy_gd": {"color": "#1f5fa8", "marker": "s"},
    "nesterov": {"color": "#2a9d8f", "marker": "P"},
    "bolt_on": {"color": "#b8860b", "marker": "X"},
    "objective_perturbation": {"color": "#d1622b", "marker": "^"},
    "output_perturbation": {"color": "#7a4fa3", "marker": "v"},
    "auto, delta=0": {"color": "#2f7d4f", "marker": "D", "linestyle": "dashed"},
}
for column, (axes, label) in enumerate(
    zip(both, ("test accuracy", "test log-loss"), strict=True)
):
    for setting, style in STYLES.items():
        stats = [summary(results[setting, epsilon]) for epsilon in EPSILONS]
        means, errors = zip(*stats, strict=True)
        axes.errorbar(
            EPSILONS,
            np.array(means)[:, column],
            np.array(errors)[:, column],
            label=setting,
            capsize=3,
            **style,
        )
    axes.axhline(reference[column], label="not private", color="0.4", linestyle=":")
    axes.set_xscale("log")
    axes.set_xticks(EPSILONS, [f"{epsilon:g}" for epsilon in EPSILONS])
    axes.minorticks_off()
    axes.set_xlabel(f"epsilon, logarithmic (delta={DELTA:.1g} unless 0)")
    axes.set_ylabel(f"{label} (mean and standard error of {REPEATS} fits)")
    axes.grid(axis="y", color="0.92")
    axes.spines[["top", "right"]].set_visible(False)
both[0].legend(loc="lower right")
figure.suptitle(f"{data.name.capitalize()}: logistic regression by solver, replace_one")
figure.savefig(folder / "solvers.png", dpi=150)
print(f"\nPicture: {folder / 'solvers.png'}")
