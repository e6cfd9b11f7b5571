"""Which drawn constant decides which result: rank correlations, and Sobol indices of a quadratic surrogate.

With some 64 draws and 40 factors (drawn constants and options) no surrogate of all factors can be fitted. The surrogate
has the few factors of the largest rank correlation, as many as leave four draws for each coefficient. How much of the
variance it explains is told from draws to which it was not fitted (leave one out)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
EVALUATIONS = 4096  # evaluations of the surrogate (a fitted model) for each Sobol index
SEED = 20240229  # random seed of these evaluations: equal inputs give equal indices


@dataclass(frozen=True)
class Share:
    """How one factor influences one result: their rank correlation, and the factor's Sobol indices."""

    factor: str
    correlation: float  # Spearman's rank correlation over the draws
    first: float | None = None  # share of the surrogate's variance that the factor alone makes
    total: float | None = None  # the factor's share including its interactions


@dataclass(frozen=True)
class Decided:
    """The factors with most influence on a result, strongest first; none where no correlation is significant."""

    shares: tuple[Share, ...]
    # share of the variance that the surrogate (a fitted model) predicts in leave-one-out validation; None without a
    # surrogate
    explained: float | None


def ranks(values: Array) -> Array:
    """The ranks of values; equal values all have the mean of their ranks."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return np.asarray((ends - (counts - 1) / 2.0)[inverse] - 1)


def correlation(x: Array, y: Array) -> float:
    """Spearman's rank correlation; 0 if either is constant."""
    a, b = ranks(x), ranks(y)
    a, b = a - a.mean(), b - b.mean()
    below = math.sqrt(float((a * a).sum() * (b * b).sum()))
    return float((a * b).sum()) / below if below > 0 else 0.0


def critical(draws: int, factors: int) -> float:
    """The significance limit of a correlation: if none of `factors` factors has any influence, the largest of their
    absolute correlations exceeds it in 5 % of all cases (normal approximation, Šidák)."""
    from scipy.stats import norm

    level = 1 - 0.95 ** (1 / max(1, factors))
    return float(norm.ppf(1 - level / 2)) / math.sqrt(max(1, draws - 1))


def decide(names: list[str], shares: Array, levels: list[int], values: Array, at_most: int = 3) -> Decided:
    """The factors with most influence on `values`, one value a draw. `shares`: draws x factors, from 0 to 1; `levels`:
    the number of levels of each factor, 0 for a constant."""
    n = len(values)
    if n < 4 or not names or float(values.max()) == float(values.min()):
        return Decided((), None)
    held = np.array([_steps(shares[:, j], levels[j]) for j in range(len(names))]).T
    found = [correlation(held[:, j], values) for j in range(len(names))]
    order = sorted(range(len(names)), key=lambda j: -abs(found[j]))
    strong = [j for j in order if abs(found[j]) > critical(n, len(names))][:at_most]
    kept = [j for j in order if abs(found[j]) > 0][: _room(n)]
    if not strong or not kept:
        return Decided(tuple(Share(names[j], found[j]) for j in strong), None)
    explained, first, total = _sobol(held[:, kept], [levels[j] for j in kept], values)
    at = {j: i for i, j in enumerate(kept)}
    return Decided(
        tuple(
            Share(names[j], found[j], first[at[j]] if j in at else None, total[at[j]] if j in at else None)
            for j in strong
        ),
        explained,
    )


def _steps(share: Array, levels: int) -> Array:
    """Rounds the shares of a factor with `levels` values to as many steps from 0 to 1; those of a constant stay as they
    are."""
    return np.minimum(np.floor(share * levels), levels - 1) / (levels - 1) if levels > 1 else share


def _room(draws: int) -> int:
    """How many factors a quadratic surrogate may have: four draws for each coefficient."""
    kept = 0
    while 1 + 2 * (kept + 1) + (kept + 1) * kept // 2 <= draws // 4:
        kept += 1
    return kept


def _terms(x: Array) -> Array:
    """The terms of the surrogate: 1, each factor, its square, and products of two factors."""
    z = 2 * x - 1
    count = z.shape[1]
    columns = [np.ones(len(z)), *z.T, *(z**2).T]
    columns += [z[:, i] * z[:, j] for i in range(count) for j in range(i + 1, count)]
    return np.array(columns).T


def _sobol(x: Array, levels: list[int], values: Array) -> tuple[float, list[float], list[float]]:
    """The share of the variance that the surrogate explains, and its first-order and total Sobol indices."""
    design = _terms(x)
    inverse = np.linalg.pinv(design)
    weights = inverse @ values
    leverage = np.clip((design * inverse.T).sum(axis=1), 0, 0.999)
    left = (values - design @ weights) / (1 - leverage)
    explained = 1 - float((left**2).sum()) / float(((values - values.mean()) ** 2).sum())
    rng = np.random.default_rng(SEED)
    count = x.shape[1]
    a, b = (np.array([_steps(rng.random(EVALUATIONS), levels[j]) for j in range(count)]).T for _ in range(2))
    of_a, of_b = _terms(a) @ weights, _terms(b) @ weights
    variance = float(np.concatenate([of_a, of_b]).var())
    if variance <= 0:
        return max(0.0, explained), [0.0] * count, [0.0] * count
    first, total = [], []
    for j in range(count):
        mixed = a.copy()
        mixed[:, j] = b[:, j]
        of_mixed = _terms(mixed) @ weights
        # Estimators of Saltelli et al. 2010 (first order) and Jansen 1999 (total).
        first.append(min(1.0, max(0.0, float((of_b * (of_mixed - of_a)).mean()) / variance)))
        total.append(min(1.0, max(0.0, float(((of_a - of_mixed) ** 2).mean()) / (2 * variance))))
    return max(0.0, explained), first, total
