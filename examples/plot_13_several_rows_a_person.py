"""
=====================
Several rows a person
=====================

A table of visits has several rows of one patient, and a promise for one row does not
protect the patient. Here the promise is for all rows of a patient together. The visits
are simulated.

Noise is drawn anew in every run, so the numbers differ a little each time.
"""

# %%
# The data
# --------
# There are 4,000 patients with 1 to 30 visits each. The visits of one patient are
# alike, so 18,000 visits say less than 18,000 patients would.
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

print("Data: simulated.")


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
# The first model promises epsilon 1 for one visit, the others for all visits of a
# patient. For a patient with thirty visits the first promise is up to thirty times
# weaker. The second costs accuracy, because there are fewer patients than visits.
temporary = Path(tempfile.mkdtemp(prefix="skdp-"))
CAP = {"delta": 1e-6, "adjacency": "replace_user", "unit": "user"}
ledger = BudgetLedger(temporary / "visits.db", epsilon=4.0, dataset="visits", **CAP)
testing = BudgetLedger(temporary / "test.db", epsilon=3.0, dataset="others", **CAP)


def of_patients(epsilon):
    """A model that protects all visits of a patient."""
    return DPLogisticRegression(
        epsilon=epsilon,
        delta=1e-7,
        privacy_unit="user",
        columns=columns,
        classes=[0, 1],
        ledger=ledger,
    )


of_visits = DPLogisticRegression(1.0, delta=1e-7, columns=columns, classes=[0, 1])
of_visits.fit(X, y)
print(of_visits.privacy_.statement(), "\n")
models = [of_patients(e).fit(X, y, groups=ids) for e in (0.1, 0.3, 1.0, 2.0)]
print(models[2].privacy_.statement(), "\n")

# %%
# How good they are
# -----------------
# The score is the mean over patients of the mean over their visits, so that a patient
# with many visits moves it by no more than one with few.
scores = [
    private_score(
        model,
        X_test,
        y_test,
        groups=ids_test,
        privacy_unit="user",
        epsilon=0.5,
        delta=1e-7,
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
# An audit exchanges all visits of one patient, and compares the sums before noise is
# added. It can only refute a promise, not confirm it. It reads its data without
# privacy, which is allowed here because they are simulated.
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
# On the left, ``forecast`` predicts the noise from the number of patients, before any
# fit and at no cost. The scores in the middle cost what the title says: all fits
# together, and all scores together. On the right is the ledger.
folder = Path("demo")
folder.mkdir(exist_ok=True)
figure, axes = plt.subplots(1, 3, figsize=(14, 4.5), layout="constrained")
shape = (len(np.unique(ids)), 3 + 2)  # patients; lines of two numbers and three wards
PrivacyUtilityDisplay.from_estimator(of_patients(1.0), shape, ax=axes[0])
PrivacyUtilityDisplay.from_scores(models, scores, ax=axes[1])
ledger.plot(ax=axes[2])
figure.savefig(folder / "patients.png", dpi=150)
print(f"\nPicture: {folder / 'patients.png'}")
