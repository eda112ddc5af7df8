#!/usr/bin/env python3
"""Fits the polynomials of ir/math.cpp: minimax (Remez) in mpmath, printed as C++ hexadecimal floats.

    pip install mpmath; scripts/fit_math.py [NAME...]

Each row of FITS says which function of which variable is approximated on which interval, with the
weight that turns the polynomial's error into the relative error of the result that it is used for.
"""
import struct
import sys
from mpmath import mp, mpf, exp, expm1, log, sin, cos, tanh, erf, erfc, sqrt, pi, matrix, lu_solve

mp.prec = 220


def remez(f, weight, low, high, degree, rounds=6, grid=1500):
    """Coefficients of p minimising max |weight·(p − f)| on [low, high], and that maximum."""
    count = degree + 2
    centre, radius = (low + high) / 2, (high - low) / 2
    nodes = [centre - radius * cos(pi * (i + mpf(1) / 2) / count) for i in range(count)]
    points = [centre - radius * cos(pi * i / grid) for i in range(grid + 1)]
    # An end of the interval where f is 0/0 is left out.
    points = [p for p in points if abs(p) > mpf(10) ** -9]
    values = [(p, f(p), weight(p)) for p in points]
    for _ in range(rounds):
        a, rhs = matrix(count), matrix(count, 1)
        for i, x in enumerate(nodes):
            w = weight(x)
            for j in range(degree + 1):
                a[i, j] = x**j * w
            a[i, degree + 1] = (-1) ** i
            rhs[i] = f(x) * w
        solution = lu_solve(a, rhs)
        coefficients = [solution[j] for j in range(degree + 1)]
        errors = []
        for p, v, w in values:
            s = mpf(0)
            for c in reversed(coefficients):
                s = s * p + c
            errors.append(((s - v) * w, p))
        # One extremum for each run of equal sign.
        extrema, best = [], errors[0]
        for e in errors[1:]:
            if (e[0] > 0) == (best[0] > 0):
                best = max(best, e, key=lambda t: abs(t[0]))
            else:
                extrema.append(best)
                best = e
        extrema.append(best)
        while len(extrema) > count:
            extrema.pop(0 if abs(extrema[0][0]) < abs(extrema[-1][0]) else -1)
        if len(extrema) < count:
            break
        nodes = [p for _, p in extrema]
    return coefficients, max(abs(e[0]) for e in errors)


def to_f32(x):
    return struct.unpack("f", struct.pack("f", float(x)))[0]


L = log(2) / 2 * mpf("1.001")
Q = (pi / 4 * mpf("1.001")) ** 2
S = mpf("1e-6")


def over_root(g):  # g(x) for an odd function, as a function of z = x²
    return lambda z: g(sqrt(z))


def log_f(f):
    return (log(1 + f) - f + f * f / 2) / f**3


def atanh_tail(z):  # (log((1+s)/(1−s)) − 2s) / s³ of z = s²
    s = sqrt(z)
    return (log((1 + s) / (1 - s)) - 2 * s) / s**3


FITS = {
    # name: (function, weight, low, high, degree, dtype)
    "exp": [(lambda r: (expm1(r) - r) / r**2, lambda r: r**2 / exp(r), -L, L, n, t)
            for n, t in ((4, "f32"), (10, "f64"))],
    "exp_low": [(lambda r: (expm1(r) - r) / r**2, lambda r: r**2 / exp(r), -L, L, 7, "f64")],
    "log": [(log_f, lambda f: f**3 / log(1 + f), mpf("-0.3334"), mpf("0.33351"), n, "f32") for n in (7, 8)],
    "log_tail": [(atanh_tail, lambda z: sqrt(z) ** 3 / 2 / sqrt(z), S, (mpf("0.1716")) ** 2, n, "f64") for n in (7, 9)],
    "sin": [(over_root(lambda x: (sin(x) - x) / x**3), lambda z: z, S, Q, n, t)
            for n, t in ((2, "f32"), (3, "f32"), (5, "f64"))],
    "cos": [(over_root(lambda x: (cos(x) - 1 + x * x / 2) / x**4), lambda z: z * z, S, Q, n, t)
            for n, t in ((2, "f32"), (5, "f64"))],
    "tanh": [(over_root(lambda x: (tanh(x) - x) / x**3), lambda z: z, S, mpf("0.3025"), n, t)
             for n, t in ((4, "f32"), (5, "f32"), (10, "f64"), (11, "f64"))],
    "erf": [(over_root(lambda x: erf(x) / x - 1), lambda z: sqrt(z) / erf(sqrt(z)), S, b * b, n, t)
            for b, n, t in ((mpf("0.92"), 5, "f32"), (mpf("0.92"), 6, "f32"), (mpf("1"), 11, "f64"), (mpf("1"), 12, "f64"))],
    "erfc": [(lambda t: log(erfc(t)), erfc, mpf("0.92"), mpf("4.0"), n, "f32") for n in (6, 7, 8)]
            + [(lambda t: log(erfc(t + mpf("1.5"))), lambda t: erfc(t + mpf("1.5")), mpf("-0.5"), mpf("4.5"), n, "f64") for n in (19, 20)],
}


def main():
    for name in sys.argv[1:] or FITS:
        for f, weight, low, high, degree, dtype in FITS[name]:
            coefficients, error = remez(f, weight, low, high, degree)
            bits = float(log(error) / log(2))
            print(f"{name} {dtype} degree {degree} on [{float(low):.4f}, {float(high):.4f}]: "
                  f"error 2^{bits:.1f}; lowest first")
            narrow = to_f32 if dtype == "f32" else float
            print("  {" + ", ".join(narrow(c).hex() for c in coefficients) + "}", flush=True)


if __name__ == "__main__":
    main()
