"""Divergences to 40 digits, written from their definitions for mpmath."""

import mpmath as mp

mp.mp.dps = 40


def ein(r):
    """∫0^r (1 - e^-t)/t dt."""
    r = mp.mpf(r)
    if r < mp.mpf("1e-3"):
        return mp.fsum((-1) ** (n + 1) * r**n / (n * mp.factorial(n)) for n in range(1, 15))
    return mp.euler + mp.log(r) + (mp.e1(r) if r < 200 else 0)


def dawson(s):
    """e^(-s²) ∫0^s e^(t²) dt."""
    s = mp.mpf(s)
    if s > 25:
        return (1 + mp.fsum(mp.fac2(2 * j - 1) / (2 * s * s) ** j for j in range(1, 20))) / (2 * s)
    return mp.sqrt(mp.pi) / 2 * mp.exp(-s * s) * mp.erfi(s)


def dawson_integral(s):
    """∫0^s of Dawson's integral."""
    s2 = mp.mpf(s) ** 2
    if s2 > 400:
        tail = mp.fsum(mp.fac2(2 * j - 1) / (2 ** (j + 1) * s2**j) / j for j in range(1, 15))
        return (mp.log(s2) / 2 + mp.euler / 2 + mp.log(2) - tail) / 2
    return s2 * mp.hyp2f2(1, 1, 1.5, 2, -s2) / 2


def kl(prior, k, log_snr):
    """KL of a weight with this log r."""
    r = mp.e ** mp.mpf(log_snr)
    if prior == "ard":
        return mp.log1p(r) * k / 2
    return ein(r) if k == 2 else 2 * dawson_integral(mp.sqrt(r / 2))


def slope(prior, k, log_snr):
    """dKL/dl."""
    r = mp.e ** mp.mpf(log_snr)
    if prior == "ard":
        return r / (1 + r) * k / 2
    s = mp.sqrt(r / 2)
    return -mp.expm1(-r) if k == 2 else s * dawson(s)


def gradient(prior, k, mu, log_sigma2):
    """(dKL/dmu as re + j·im of the partials, dKL/dlog_sigma2)."""
    mu = mp.mpc(complex(mu))
    if mu == 0:
        return mp.mpc(0), mp.mpf(0)
    g = slope(prior, k, 2 * mp.log(abs(mu)) - mp.mpf(log_sigma2))
    return 2 * g * mu / abs(mu) ** 2, -g
