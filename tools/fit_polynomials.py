#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# Prints the polynomial coefficients of src/kernel/fast_math.inc.h: minimax fits by Remez exchange on a grid, rounded
# to float.
# Needs mpmath; run by hand when a degree or an interval changes.
import numpy as np
from mpmath import mp, mpf, matrix, lu_solve, exp, log, erfc, sqrt, pi, cos

mp.dps = 40


def remez(f, w, powers, lo, hi, grid=1500, rounds=12):
    """Coefficients c of sum c_i x^powers_i with the least largest |w·(f - p)| on [lo, hi]; returns (c, error)."""
    n = len(powers)
    xs = [lo + (hi - lo) * (1 - cos(pi * i / (grid - 1))) / 2 for i in range(grid)]
    fs, ws = [f(x) for x in xs], [w(x) for x in xs]
    ref = [round(i * (grid - 1) / n) for i in range(n + 1)]
    for _ in range(rounds):
        a, b = matrix(n + 1, n + 1), matrix(n + 1, 1)
        for r, i in enumerate(ref):
            for c, p in enumerate(powers):
                a[r, c] = ws[i] * xs[i] ** p
            a[r, n] = (-1) ** r
            b[r] = ws[i] * fs[i]
        sol = lu_solve(a, b)
        coef = [sol[i] for i in range(n)]
        err = [ws[i] * (fs[i] - sum(c * xs[i] ** p for c, p in zip(coef, powers))) for i in range(grid)]
        # alternate extrema: the largest of each run of one sign
        runs, start = [], 0
        for i in range(1, grid + 1):
            if i == grid or (err[i] > 0) != (err[start] > 0):
                runs.append(max(range(start, i), key=lambda q: abs(err[q])))
                start = i
        while len(runs) > n + 1:
            runs.pop(0 if abs(err[runs[0]]) < abs(err[runs[-1]]) else -1)
        if len(runs) < n + 1 or runs == ref:
            break
        ref = runs
    return coef, max(abs(e) for e in err)


def fit_float(name, f, w, n, lo, hi):
    coef, err = remez(f, w, range(n), mpf(lo), mpf(hi))
    print(f"{name}: error {float(err):.2e} before rounding")
    for p, c in enumerate(coef):
        c = float(np.float32(float(c)))
        print(f"  x^{p}: {c.hex()}f  ({c:.9g})")


h = log(2) / 2
# exp(r) = 1 + r + r²·q(r) on |r| <= ln2/2; the same q serves expm1
lim = h * mpf("1.002")
tiny = mpf(10) ** -8
q = lambda r: (exp(r) - 1 - r) / r**2 if abs(r) > mpf(10) ** -12 else mpf(1) / 2
fit_float("exp q, degree 4", q, lambda r: abs(r) + tiny, 5, -lim, lim)
# log(1+f) = f - f²/2 + f³·p(f), sqrt(1/2) - 1 <= f <= sqrt(2) - 1
p = lambda f: (log(1 + f) - f + f * f / 2) / f**3 if abs(f) > mpf(10) ** -9 else mpf(1) / 3
fit_float("log p, degree 7", p, lambda f: f**2 + tiny, 8, sqrt(mpf(1) / 2) - 1, sqrt(mpf(2)) - 1)
# erf(x) = x·(s(x²)) for |x| <= 1
s = lambda u: (1 - erfc(sqrt(u))) / sqrt(u) if u > mpf(10) ** -20 else 2 / sqrt(pi)
fit_float("erf s, degree 6 in x^2", s, lambda u: mpf(1), 7, 0, 1)
# erfc(x) = exp(-t(x)) for 1 <= x <= 4
fit_float("erfc t, degree 7", lambda x: -log(erfc(x)), lambda x: erfc(x), 8, mpf("0.99"), mpf(4))
