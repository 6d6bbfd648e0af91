"""Parts of docstrings that many estimators have in common, written once.

A docstring names an entry of `SHARED` on a line of its own: ``%(epsilon)s`` stands for
the whole entry, and several names may share a line. Lines that are indented below it
add what holds for that estimator only. An indented ``%(epsilon)s`` stands for the text
without its heading, which the estimator then writes itself.
"""

from __future__ import annotations

import inspect
import re
from typing import TypeVar

_Documented = TypeVar("_Documented")

_TEXT = """
epsilon : float in [1e-6, 1e8] or inf, default=1.0
    Privacy loss. When a data set is replaced by a neighbouring one (see `adjacency`),
    the probability of any result grows at most by the factor ``exp(epsilon)``, plus
    `delta`. A smaller epsilon protects more and adds more noise. inf adds no noise, and
    the result is **not private**.
delta : 0 or float in [1e-50, 1), default=1e-6
    What the guarantee adds to the factor of `epsilon` in the probability of any result.
    Choose it far below ``1 / n_samples``: to publish one record at random would satisfy
    ``delta=1 / n_samples``. 0, where it is allowed, asks for pure
    epsilon-differential privacy.
adjacency : {"replace_one", "zero_out"}, default="replace_one"
    Which data sets are neighbours. "replace_one": one record is exchanged for any
    other. "zero_out": one record is exchanged for the null record, which contributes
    nothing; the noise can then be half as large, and the guarantee is about half as
    strict. The number of records is public under both.
privacy_unit : {"record", "user"}, default="record"
    What the guarantee protects. "record": one row. "user": all rows of one user; pass
    the users' ids as `groups` to `fit`. Each user then counts as one record, which
    contributes the mean of what the user's rows contribute; `adjacency` exchanges one
    user, and the number of users is public, not that of rows
    (``docs/guide/several_rows.md``).
columns : mapping, sequence, Range, TableEncoder or None, default=None
    Declarations of `skdp.columns`, known without looking at the data. With them X is a
    table, which `fit` and `predict` encode as `TableEncoder` does; how finely follows
    from n_samples, epsilon and delta. Encoded rows have norm at most 1, so `data_norm`
    must stay 1.0. A TableEncoder says how to encode instead. None: X holds numbers.
data_norm : float in [1e-100, 1e100], default=1.0
    L2 norm to which each row is clipped, in units of the features, known without
    looking at the data. `BoundedScaler` and `RowNormClipper` return rows of norm at
    most 1.
C : float in [1e-100, 1e100] or None, default=None
    Inverse regularisation strength, as in scikit-learn. None: the solver chooses from
    public facts, either a regularisation or how long it trains; 1.0 if epsilon is inf
    and no columns are declared.
alpha : float in [0, 1e100] or None, default=None
    L2 regularisation of the mean loss. None: no penalty beyond the one that the solver
    chooses, from public facts or from what it released.
fit_intercept : bool, default=True
    Whether the model has an intercept.
solver : str, default="auto"
    ``"auto"`` chooses a solver from public facts and says why in ``privacy_``
    (``docs/guide/linear_models.md``). Any other value is a key of
    ``skdp.solvers.SOLVERS``; a solver that cannot fit this model refuses it before
    anything is spent.
solver_params : mapping or None, default=None
    Hyper-parameters of a named solver, for example ``{"n_steps": 100}``. skdp derives
    sensitivity and noise from them and from the budget: no hyper-parameter can weaken
    the guarantee or make the noise predictable.
classes : array-like of shape (n_classes,) or None, default=None
    All labels that may occur. None takes them from `y`, which assumes that the set of
    labels is public, and warns with `PublicLabelsWarning`.
class_weight : mapping of labels to floats in [1e-6, 1e6], or None, default=None
    How much a record of each label counts in the loss, and so in `predict` and
    `decision_function`. A label that is left out counts once. Choose weights without
    looking at the data: "balanced", which would count private labels, is refused. The
    noise is made for the largest weight.
correct_prior : bool, default=True
    Whether `predict_proba` describes the records as they are. False: records in which
    each label is as frequent as `class_weight` makes it.
target_bounds : pair of floats in [-1e100, 1e100]
    Lowest and highest target, in units of the target, known without looking at the
    data. Targets beyond them are clipped. Required; the default None raises.
random_state : int or None, default=None
    None draws the noise from the operating system's entropy. An integer makes the
    result reproducible and **not private**, since anyone can then recompute the noise.
ledger : BudgetLedger or None, default=None
    Ledger that is charged before any data are read, and that refuses what would exceed
    its cap. None: nobody adds up what several releases cost together.
verbose : bool or int, default=False
    Whether to print the solver's progress: numbers of steps, nothing from the data.
feature_bound : float in [1e-100, 1e100] or None, default=None
    Magnitude to which each entry is clipped before its row is, in units of the
    features. If it is far below `data_norm`, the solver selects features with much less
    noise. None: `data_norm`, which bounds entries anyway; with `columns` the bound that
    the encoding guarantees.
n_nonzero_coefs : int in [1, n_features] or None, default=None
    Largest number of features with a nonzero coefficient. None: as many as can be told
    from the noise, by a rule that knows the shape of the data and the budget.
init : {"linear", "constant"}, default="linear"
    Model that the trees continue: a private additive linear model of the codes, paid
    for in the same event, or a constant. With few records the linear model is all that
    is fitted. Without noise the trees start at a constant.
n_estimators : int or None, default=None
    Number of trees. Public. None: the solver's rule by n_samples, epsilon and delta,
    which may give 0.
learning_rate : float in (0, 1] or None, default=None
    Factor on the values of each tree's leaves. None: the solver's rule.
max_depth : int or None, default=None
    Largest depth of a tree. None: the solver's rule. Deep trees do little harm, since
    leaves that drown in noise are shrunk to 0.
max_interaction : {"mix", 1, 2, None}, default="mix"
    How many columns one tree may cut: 1, at most 2, or (None) any number. "mix" uses
    all three in turn. 1 and 2 give `shape_functions_`.
interaction_cst : {"pairwise", "no_interactions"}, list of groups, or None, default=None
    Groups of columns, by name or by position in X, that may share a tree. Columns in
    none of the groups form one more group. The two words treat each part of a date as
    a column.
hidden_layer_sizes : int or sequence of int in [1, 4096], default=(32,)
    Number of units of each hidden layer. At most 8 layers; none, ``()``, is a linear
    model.
convolutions : sequence of skdp.neural_network.Convolution, default=()
    Convolutions before the hidden layers, for rows that are images. They and the hidden
    layers are at most 8 together and have the same activation.
image_shape : (height, width), (height, width, channels) or None, default=None
    Shape of the image in each row, which lists the image row by row, with the channels
    of a pixel together. Required with `convolutions`, and refused without.
activation : {"tanh", "logistic", "relu", "identity"}, default="tanh"
    Activation of the hidden units.
bounds : pair of floats, pair of array-likes, or mapping
    ``(low, high)`` for all features, ``(lows, highs)`` with one entry per feature, or
    ``{column name: (low, high)}`` for every column of a data frame. Finite, with low <
    high, in units of the features, known without looking at the data. Required; None
    raises in `fit`.
groups : array-like of shape (n_samples,) or None, default=None
    User of each row, with ``privacy_unit="user"`` and only then: integers or texts,
    none missing. A categorical of pandas declares users without rows as well. Left out
    with a source, which names the column of ids.
classes_ : ndarray of shape (n_classes,)
    Labels. Public, or assumed to be (see `classes`).
center_, scale_ : ndarray of shape (n_features,) or (n_encoded_features,)
    Each row is centred on `center_`, multiplied by `scale_` and clipped to `row_norm_`.
    The centre is a private output, the scale is public. Only of ``solver="auto"``
    (``docs/guide/linear_models.md``).
row_norm_ : float
    Norm to which centred rows are clipped. Private output. Only with `center_`.
coef_path_, intercept_path_ : ndarray of shape (n_steps, ...)
    `coef_` and `intercept_` after each step, along the first axis. The model is an
    average of them, or the last. Private output, paid for with the model. Only of a
    descent with ``solver_params={"keeps_path": True}``.
n_nonzero_coefs_ : int
    `n_nonzero_coefs`, or the number that its rule gave. Public.
feature_importances_ : ndarray of shape (n_features_in_,)
    Importance of each column of X. Private output.
bins_ : Bins
    Codes of the declared columns. Public.
tree_seed_ : int
    Seed from which the trees were drawn. Public.
shrinkage_ : float in {0.0, 0.25, 0.5, 1.0}
    Factor on the values of all trees, chosen by noisy sums of how much it reduces the
    loss; 0.0 leaves the model that the trees continue. Private output. Only if several
    factors were compared.
init_seed_ : int
    Seed from which the first weights were drawn. Public.
output_norm_ : float or None
    `data_norm_`, or None if that is inf. Public.
privacy_ : PrivacyRecord
    Privacy statement: what was released, how, under which guarantee and at what cost.
    Public facts.
encoder_ : TableEncoder
    Encoder of the declared columns. Public. Only if `columns` is given.
n_features_in_ : int
    Number of columns of X. Public.
feature_names_in_ : ndarray of shape (n_features_in_,)
    Names of the columns of X. Public. Only if all names are strings.
ValueError, TypeError
    If a parameter or an input is out of range, if `groups` is given without
    ``privacy_unit="user"``, or left out with it. Nothing was spent, and the estimator
    is as it was before.
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
    """The same class or function, each placeholder in its docstring filled in.

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
