"""K-means on scikit-learn's handwritten digits, its two steps written as Tegula kernels.

    python examples/kmeans.py

Runs Lloyd's algorithm from the same first centres as scikit-learn and compares the results.
"""

from __future__ import annotations

import numpy as np
from kernels import accumulate_kernel, assign_kernel
from place import Place, best

import tegula

BLOCK = 64


def kmeans(
    at: Place, x: np.ndarray, centres: np.ndarray, max_iter: int = 300
) -> tuple[np.ndarray, np.ndarray, float, int]:
    """Cluster the rows of x, f32 [n, d], on a device, starting from `centres`, f32 [k, d].

    Returns the centres, a label per row, the inertia (sum of squared distances), and the number
    of iterations.
    Stops when no label changes. An empty cluster keeps its centre.
    """
    n, d = x.shape
    k = len(centres)
    centres = centres.copy()
    labels = np.full(n, -1, np.int32)
    cost = np.empty(n, np.float32)
    sums, counts = np.zeros((k, d), np.float32), np.zeros(k, np.int32)
    points, near, there, costs = map(at.put, (x, centres, labels, cost))
    grid = (tegula.cdiv(n, BLOCK),)
    for iteration in range(1, max_iter + 1):  # noqa: B007 - its last value is returned
        before = at.get(labels).copy()
        assign_kernel[grid](points, near, there, costs, n, K=k, D=d, BLOCK=BLOCK)
        if np.array_equal(at.get(labels), before):
            break
        sums[:], counts[:] = 0, 0
        at.fill(sums)
        at.fill(counts)
        accumulate_kernel[grid](points, there, at.put(sums), at.put(counts), n, D=d, BLOCK=BLOCK)
        total, members = at.get(sums), at.get(counts)
        filled = members > 0
        centres[filled] = total[filled] / members[filled, None]
        at.fill(centres)
    return centres, at.get(labels), float(at.get(cost).sum(dtype=np.float64)), iteration


def compare(at: Place, seed: int = 0) -> dict[str, float]:
    """Cluster the digits with Tegula and with scikit-learn; returns what the tour prints."""
    from sklearn.cluster import KMeans
    from sklearn.datasets import load_digits
    from sklearn.metrics import adjusted_rand_score

    digits = load_digits()
    x = digits.data.astype(np.float32)
    first = x[np.random.default_rng(seed).choice(len(x), 10, replace=False)]
    centres, labels, inertia, iterations = kmeans(at, x, first)
    theirs = KMeans(10, init=first, n_init=1, tol=0, max_iter=300, algorithm="lloyd").fit(x)
    return {
        "points": len(x),
        "iterations": iterations,
        "inertia": inertia,
        "sklearn inertia": float(theirs.inertia_),
        "labels equal": float(np.mean(labels == theirs.labels_)),
        "largest centre difference": float(np.abs(centres - theirs.cluster_centers_).max()),
        "adjusted Rand index against the digits": float(adjusted_rand_score(digits.target, labels)),
    }


if __name__ == "__main__":
    for name, value in compare(best()).items():
        print(f"{name:40} {value:g}")
