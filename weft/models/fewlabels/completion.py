"""Tables of p(vote | class) out of how often pairs of votes occur together: the matrix-completion form (Ratner et al. 2019).

With votes as marks of their K + 1 values the joint chances of functions i ≠ j are Oᵢⱼ = μᵢ P μⱼᵀ, P = diag p(class): a matrix of
rank K of which the blocks on the diagonal are not known. Given the others, each μᵢ is the solution of a least-squares problem.

Two classes are found exactly. Of more, pairs leave a rotation open (μ √P may be turned about √p(class)), so that the answer depends
on the start; EM, which sees whole rows of votes, does not have that freedom.
"""

from __future__ import annotations

import numpy as np

from ...errors import OptionError

__all__ = ["completed", "joint_chances", "solved"]

LEAST = 1e-4  # of a probability
FIRM = 100.0  # weight of how often each vote is given at all; where it holds, columns of the solution add up to 1


def completed(votes: np.ndarray, balance: np.ndarray, start: np.ndarray, turns: int, tol: float) -> np.ndarray:
    """Tables of p(vote | class), (M, K + 1, K), out of votes (N, M): `solved` for their joint chances."""
    return solved(joint_chances(votes, start.shape[2]), balance, start, turns, tol)


def solved(pairs: np.ndarray, balance: np.ndarray, start: np.ndarray, turns: int, tol: float) -> np.ndarray:
    """μ with Oᵢⱼ ≈ μᵢ P μⱼᵀ for all pairs i ≠ j, by least squares in turn; at the end each column a distribution.

    pairs: O, (M, M, K + 1, K + 1), of whose blocks i = j only the diagonals count, how often each vote is given
    balance: p(class), (K,), which must be known: μ and P are not told apart by pairs
    start: tables to begin with, (M, K + 1, K), which say what class is which: O alone knows no names
    turns, tol: most rounds over all functions, and the change of a chance at which they end
    """
    count = len(start)
    if count < 3:
        raise OptionError(f"LabelModel: completion needs three functions or more, got {count}; fit by method='em'")
    tables = start.astype(np.float64)
    for _ in range(turns):
        before = tables.copy()
        for i in range(count):
            others = [j for j in range(count) if j != i]
            known = np.concatenate([FIRM * balance[None], *(tables[j] * balance for j in others)])  # (1 + Σ K + 1, K)
            seen = np.concatenate([FIRM * pairs[i, i].diagonal()[None], *(pairs[i, j].T for j in others)])
            tables[i] = np.linalg.lstsq(known, seen, rcond=None)[0].T  # (K + 1, K)
        if np.abs(tables - before).max() < tol:
            break
    tables = tables.clip(LEAST, 1.0)
    return tables / tables.sum(1, keepdims=True)


def joint_chances(votes: np.ndarray, classes: int) -> np.ndarray:
    """How often vote a of function i and vote b of function j fall on one example: (N, M) → (M, M, K + 1, K + 1)"""
    marks = (votes[:, :, None] == np.arange(-1, classes)).astype(np.float64)  # (N, M, K + 1)
    return np.einsum("nia,njb->ijab", marks, marks, optimize=True) / max(len(votes), 1)
