"""Parts of docstrings that many estimators have in common, written once.

A docstring names an entry of `SHARED` on a separate line: ``%(epsilon)s`` is replaced
by the whole entry, and one line may name several entries. Indented lines below it add
what holds for that estimator only. An indented ``%(epsilon)s`` is replaced by the text
without its heading, for which the estimator writes another heading.
"""

from __future__ import annotations

import inspect
import re
from typing import TypeVar

_Documented = TypeVar("_Documented")

_TEXT = """
epsilon : float in [1e-6, 1e8] or inf, default=1.0
    Privacy loss. If the data set is replaced by a neighbouring one (see `adjacency`),
    the probability of any result grows at most by the factor ``exp(epsilon)``, plus
    `delta`. A smaller epsilon protects more and adds more noise. inf adds no noise, and
    the result is **not private**. Every fit costs it anew, and so does each fold of
    ``cross_val_score`` and each candidate of ``GridSearchCV``; use `private_score` and
    `DPGridSearchCV`.
delta : 0 or float in [1e-50, 1), default=1e-6
    Probability with which the bound of epsilon may fail. Choose it far below
    ``1 / n_samples``, because publishing one record at random would satisfy
    ``delta=1 / n_samples``: the default will do for up to 20,000 records, and
    ``1 / n_samples**2`` for more. 0, where it is allowed, asks for pure
    epsilon-differential privacy.
adjacency : {"replace_one", "zero_out"}, default="replace_one"
    Which data sets are neighbours. "replace_one": one record is replaced by any other
    record. "zero_out": one record is replaced by the null record, which contributes
    nothing; the noise can then be half as large, and the guarantee is about half as
    strict. The number of records is public under both.
privacy_unit : {"record", "user"}, default="record"
    What the guarantee protects. "record": one row. "user": all rows of one user; pass
    the id of each row's user as `groups` to `fit`. Each user then counts as one record,
    which contributes the mean of the contributions of the user's rows, and `adjacency`
    holds for users instead of records. The number of users is public, the number of
    rows is not (``docs/guide/several_rows.md``).
columns : mapping, sequence, Range, TableEncoder or None, default=None
    Declarations of `skdp.columns`, known without looking at the data. X is then a
    table, which `fit` and `predict` encode as `TableEncoder` does, with a resolution
    that follows from n_samples, epsilon and delta. Encoded rows have norm at most 1, so
    `data_norm` must stay 1.0. Pass a TableEncoder to choose the encoding. One Range
    holds for every column of X, and nothing checks that the columns are alike. None: X
    holds numbers.
data_norm : float in [1e-100, 1e100], default=1.0
    L2 norm to which each row is clipped, in units of the features, known without
    looking at the data. `BoundedScaler` and `RowNormClipper` return rows of norm at
    most 1.
C : float in [1e-100, 1e100] or None, default=None
    Inverse regularisation strength, as in scikit-learn. None: the solver chooses a
    regularisation, or the number of its steps, from public facts; 1.0 if epsilon is inf
    and no columns are declared.
alpha : float in [0, 1e100] or None, default=None
    L2 regularisation of the mean loss. None: no penalty, except one that the solver may
    choose from public facts or from released values.
fit_intercept : bool, default=True
    Whether the model has an intercept.
solver : str, default="auto"
    ``"auto"`` chooses a solver from public facts and gives the reason in ``privacy_``
    (``docs/guide/linear_models.md``). Any other value is a key of
    ``skdp.solvers.SOLVERS``; a solver that cannot fit this model raises an error before
    anything is spent.
solver_params : mapping or None, default=None
    Hyper-parameters of a named solver, for example ``{"n_steps": 100}``. None of them
    can weaken the guarantee or make the noise predictable, because skdp derives
    sensitivity and noise from them and from the budget. Linear models and boosting
    take ``{"law": "gaussian"}`` with ``solver="auto"``: Gaussian noise also where the
    model is a constant, so that costs of several models add up in squares.
classes : array-like of shape (n_classes,) or None, default=None
    All labels that may occur. None takes them from `y`, which assumes that the set of
    labels is public, and warns with `PublicLabelsWarning`.
class_weight : mapping of labels to floats in [1e-6, 1e6], or None, default=None
    Weight of a record of each label in the loss, which therefore affects `predict` and
    `decision_function`. A label without an entry has weight 1. Choose the weights
    without looking at the data: "balanced", which would count private labels, is
    refused. The noise is calibrated to the largest weight.
correct_prior : bool, default=True
    Whether `predict_proba` gives probabilities for the label frequencies of the data.
    False: for the frequencies that the labels have after weighting by `class_weight`.
target_bounds : pair of floats in [-1e100, 1e100]
    Lowest and highest target, in units of the target, known without looking at the
    data. Targets outside the bounds are clipped. Required: `fit` refuses the default
    None.
random_state : int or None, default=None
    None draws the noise from the operating system's entropy. An integer makes the
    result reproducible and **not private**, since anyone can then recompute the noise.
ledger : BudgetLedger or None, default=None
    Ledger that is charged before any data are read, and that refuses a fit that would
    exceed its cap. None: the total cost of several releases is not tracked.
verbose : bool, int or None, default=None
    Whether to print the solver's progress: numbers of steps, nothing from the data.
    None: lines on the standard error from the tenth second of a fit on, with the time
    left; nothing with ``privacy_unit="user"`` or secret samples. 0: nothing.
feature_bound : float in [1e-100, 1e100] or None, default=None
    Magnitude to which each entry is clipped before its row is clipped, in units of the
    features. If it is far below `data_norm`, the solver selects features with much less
    noise. None: `data_norm`, which bounds the entries anyway; with `columns` the bound
    that the encoding guarantees.
n_nonzero_coefs : int in [1, n_features] or None, default=None
    Largest number of features with a nonzero coefficient. None: as many as can be
    distinguished from the noise, by a rule that uses only the shape of the data and the
    budget.
init : fitted model of this class or None, default=None
    A released model that this fit continues: the fit starts at the weights of the
    model, and adds to them the share of what it learns that the noise of both fits
    recommends. Parameters, columns and labels must be the same. Both fits need
    ``solver="auto"`` in linear models. The fit pays for its records; a record of both
    fits has the guarantees of both together. None: the fit starts anew
    (``docs/guide/several_owners.md``).
init_of_trees : {"linear", "constant"} or fitted model, default="linear"
    Model to which the trees are added: a private linear model with one weight for each
    interval or category, or a constant. With few records only the linear model is
    fitted; with many, a tenth of the trees is added on trial, and the others follow if
    these reduce the loss. Otherwise the linear model gets their budget. Without noise
    the trees start from a constant. A fitted model of this class is a released model
    that the fit continues: its linear model is continued as a linear model is, its
    trees are kept, and new trees follow in the same way
    (``docs/guide/several_owners.md``).
n_estimators : int in [0, 10000] or None, default=None
    Number of trees. Public. 0 fits the start alone. None: the solver's rule, which
    depends on n_samples, epsilon and delta and gives 600, or 0 with few records; the
    model stays linear if a trial of the first trees finds that they do not help.
learning_rate : float in (0, 1] or None, default=None
    Factor on the values of each tree's leaves. None: the solver's rule.
max_depth : int or None, default=None
    Largest depth of a tree. None: the solver's rule. Deep trees do little harm, since
    leaves whose values are mostly noise are shrunk to 0.
max_interaction : {"mix", 1, 2, None}, default="mix"
    Number of columns that one tree may split on: 1, at most 2, or any number (None).
    "mix" uses all three in turn, and any number after a linear model. With 1 and 2 the
    model has `shape_functions_`.
interaction_cst : {"pairwise", "no_interactions"}, list of groups, or None, default=None
    Groups of columns, by name or by position in X, that may share a tree. Columns that
    are in no group form one more group. "pairwise" and "no_interactions" treat each
    part of a date as a column.
hidden_layer_sizes : int or sequence of int in [1, 4096], default=(32,)
    Number of units of each hidden layer. At most 8 layers; ``()`` is a linear model.
convolutions : sequence of skdp.neural_network.Convolution, default=()
    Convolutions before the hidden layers, for rows that are images. There may be at
    most 8 convolutions and hidden layers together, all with the same activation.
image_shape : (height, width), (height, width, channels) or None, default=None
    Shape of the image in each row, which lists the image row by row, with the channels
    of a pixel together. Required with `convolutions`, and refused without them.
activation : {"tanh", "logistic", "relu", "identity"}, default="tanh"
    Activation of the hidden units.
bounds : pair of floats, pair of array-likes, or mapping
    ``(low, high)`` for all features, ``(lows, highs)`` with one entry per feature, or
    ``{column name: (low, high)}`` for every column of a data frame. Finite, with low <
    high, in units of the features, known without looking at the data. Required: `fit`
    refuses None.
groups : array-like of shape (n_samples,) or None, default=None
    Id of each row's user; required with ``privacy_unit="user"``, refused otherwise. Ids
    are integers or strings, and none is missing. A pandas categorical can also declare
    users without rows. Leave it out with a source, which names the column of ids.
classes_ : ndarray of shape (n_classes,)
    Labels. Public, or assumed to be (see `classes`).
center_, scale_ : ndarray of shape (n_features,) or (n_encoded_features,)
    Each row is centred on `center_`, multiplied by `scale_` and clipped to `row_norm_`.
    The centre is a private output, the scale is public. Only with ``solver="auto"``
    (``docs/guide/linear_models.md``).
row_norm_ : float
    Norm to which centred rows are clipped. Private output. Only with `center_`.
coef_path_, intercept_path_ : ndarray of shape (n_steps, ...)
    `coef_` and `intercept_` after each step, along the first axis. The model is their
    average, or the last of them. Private output, at no further cost. Only of a descent
    solver with ``solver_params={"keeps_path": True}``.
n_nonzero_coefs_ : int
    `n_nonzero_coefs`, or the number that the default rule gave. Public.
feature_importances_ : ndarray of shape (n_features_in_,)
    Importance of each column of X. Private output.
bins_ : Bins
    Codes of the declared columns. Public.
tree_seed_ : int
    Seed from which the trees were drawn. Public. Only if trees were drawn.
shrinkage_ : float in {0.0, 0.25, 0.5, 1.0}
    Factor on the values of all trees, chosen by noisy sums of the reductions of the
    loss. 0.0: only the model to which the trees are added is left, because the first
    trees or all trees did not help. Private output. Only if several factors were
    compared.
init_seed_ : int
    Seed from which the first weights were drawn. Public.
output_norm_ : float or None
    `data_norm_`, or None if that is inf. Public.
privacy_ : PrivacyRecord
    Privacy statement of the fit: adjacency, mechanism, guarantee and cost. Public.
encoder_ : TableEncoder
    Encoder of the declared columns. Public. Only if `columns` is given.
n_features_in_ : int
    Number of columns of X. Public.
feature_names_in_ : ndarray of shape (n_features_in_,)
    Names of the columns of X. Public. Only if all names are strings.
ValueError, TypeError
    If a parameter or an input is out of range, if `groups` is given without
    ``privacy_unit="user"``, or missing with it. Nothing was spent, and the estimator is
    unchanged.
BudgetExceeded
    If the ledger's cap does not allow this fit. Nothing was read or spent.
"""

# By the first name in the heading.
SHARED = {
    entry.split(maxsplit=1)[0].rstrip(","): entry
    for entry in re.split(r"\n(?=\w)", _TEXT.strip())
}

_PLACEHOLDER = re.compile(r"^(    )?%\(([\w, ]+)\)s$", re.MULTILINE)


def _entries(placeholder: re.Match[str]) -> str:
    indent, names = placeholder.groups()
    entries = [SHARED[name] for name in names.split(", ")]
    if indent:
        entries = [entry.partition("\n")[2] for entry in entries]
    return "\n".join(entries)


def fill_docs(documented: _Documented) -> _Documented:
    """Fill in each placeholder in the docstring of a class or function, and return it.

    Raises
    ------
    KeyError
        If a placeholder names no entry of `SHARED`.
    """
    # Python's option -OO leaves no docstrings.
    if "%(" in (documented.__doc__ or ""):
        text = inspect.cleandoc(documented.__doc__ or "")
        documented.__doc__ = _PLACEHOLDER.sub(_entries, text) + "\n"
    return documented
