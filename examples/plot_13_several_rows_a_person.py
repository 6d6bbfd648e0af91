"""
=====================
Several rows a person
=====================

A table of visits has several rows of one patient, and a promise for one row is then
none for the patient. Here the promise is for all rows of a patient together, and the
ledger counts patients. Visits are made up, so that everything about them is known.

Noise is drawn anew in every run, so the numbers differ a little each time.
"""

# %%
# The data
# --------
# 4,000 patients with 1 to 30 visits each. Patients differ, and the visits of one are
# alike: 18,000 rows tell less than 18,000 patients would.
import tempfile
from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # draws to a file; no window needed

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skdp import BudgetLedger, DPLogisticRegression, private_score
from skdp.audit import audit_estimator
from skdp.model_selection import PrivacyUtilityDisplay

print("Data: made up.")


def visits(n_patients, first_id, seed):
    """Visits with the patients' ids, and whether the patient came back in a month."""
    rng = np.random.default_rng(seed)
    n_rows = np.minimum(rng.geometric(0.22, n_patients), 30)
    patient = np.repeat(np.arange(n_patients), n_rows)
    age = rng.uniform(20, 90, n_patients)[patient]
    severity = rng.beta(2, 4, n_patients)[patient]
    table = pd.DataFrame(
        {
            "age": age,
            "severity": np.clip(severity + rng.normal(0, 0.1, len(age)), 0, 1),
            "ward": rng.choice(WARDS, len(age)),
        }
    )
    margin = (age - 55) / 15 + 5 * (severity - 0.35) + (table["ward"] == "heart")
    came_back = rng.random(len(age)) < 1 / (1 + np.exp(-margin))
    return table, came_back.astype(int).to_numpy(), patient + first_id


WARDS = ["surgery", "medicine", "heart"]
columns = {"age": (18, 100), "severity": (0, 1), "ward": WARDS}
X, y, ids = visits(4000, 0, seed=0)
X_test, y_test, ids_test = visits(2000, 4000, seed=1)
print(f"{len(X)} visits of {len(np.unique(ids))} patients.")
print(f"One of them has {np.bincount(ids).max()} visits.\n")

# %%
# What is promised to whom
# ------------------------
# The same epsilon, for one visit and for all visits of a patient. Where a patient has
# thirty visits, the first promise is up to thirty times weaker for the patient. The
# second costs accuracy, since there are fewer patients than visits.
books = Path(tempfile.mkdtemp(prefix="skdp-"))
DELTA = 5e-8  # below 1 / n^2 for 4,000 patients
CAP = {"delta": DELTA, "adjacency": "replace_user", "unit": "user"}
ledger = BudgetLedger(books / "visits.db", epsilon=4.0, dataset="visits", **CAP)
testing = BudgetLedger(books / "test.db", epsilon=3.0, dataset="other patients", **CAP)


def of_patients(epsilon):
    """A model that protects all visits of a patient."""
    return DPLogisticRegression(
        epsilon=epsilon,
        delta=DELTA / 10,
        privacy_unit="user",
        columns=columns,
        classes=[0, 1],
        ledger=ledger,
    )


of_visits = DPLogisticRegression(1.0, delta=DELTA / 10, columns=columns, classes=[0, 1])
of_visits.fit(X, y)
print(of_visits.privacy_.statement(), "\n")
models = [of_patients(e).fit(X, y, groups=ids) for e in (0.1, 0.3, 1.0, 2.0)]
print(models[2].privacy_.statement(), "\n")

# %%
# How good they are
# -----------------
# The score counts patients as well: each has the mean over the own visits, so that a
# patient with many of them moves it by no more than one with few.
scores = [
    private_score(
        model,
        X_test,
        y_test,
        groups=ids_test,
        privacy_unit="user",
        epsilon=0.5,
        delta=DELTA / 10,
        ledger=testing,
    )
    for model in models
]
for model, score in zip(models, scores, strict=True):
    noise = f"noise {score.standard_error:.3f}"
    print(f"epsilon {model.epsilon:3g}: accuracy {score.value:.3f} ({noise})")
print(f"\n{ledger}")

# %%
# Does the promise hold?
# ----------------------
# An audit exchanges all visits of one patient, and compares what fits hand to their
# noise. It cannot confirm a promise, only refute one. It reads its data without
# privacy: these are made up, and there is no ledger.
audit = audit_estimator(
    of_patients(1.0).set_params(ledger=None),
    X[:500],
    y[:500],
    groups=ids[:500],
    access="transcript",
)
print(f"\n{audit.sentence()}")

# %%
# The picture
# -----------
# Before any fit, ``forecast`` tells from the number of patients how much noise there
# will be, for nothing. The scores of fitted models cost what the title says: all fits
# together, and all scores together. On the right, the ledger.
folder = Path("demo")
folder.mkdir(exist_ok=True)
figure, axes = plt.subplots(1, 3, figsize=(14, 4.5), layout="constrained")
shape = (len(np.unique(ids)), 3 + 2)  # patients; lines of two numbers and three wards
PrivacyUtilityDisplay.from_estimator(of_patients(1.0), shape, ax=axes[0])
PrivacyUtilityDisplay.from_scores(models, scores, ax=axes[1])
ledger.plot(ax=axes[2])
figure.savefig(folder / "patients.png", dpi=150)
print(f"\nPicture: {folder / 'patients.png'}")
