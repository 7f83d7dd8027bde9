"""The model of `weft bench --scaling`: it finds latency and bandwidth that calls were made with, and behaves at its ends."""

from __future__ import annotations

import pytest

from weft.app.scaling import MEASURED, SIZES, fitted, predicted


def calls(latency: float, bandwidth: float) -> list[dict]:
    time = lambda k, n: latency * (k - 1) + 2 * n * (k - 1) / k / bandwidth
    return [{"ranks": k, "calls": {str(n): time(k, n) for n in SIZES}} for k in MEASURED]


@pytest.mark.parametrize(("latency", "bandwidth"), [(2e-5, 5e9), (1e-3, 1e8), (3e-6, 1.2e10)])
def test_latency_and_bandwidth_are_found_again(latency, bandwidth):
    found = fitted(calls(latency, bandwidth))
    assert found["latency"] == pytest.approx(latency, rel=1e-6)
    assert found["bandwidth"] == pytest.approx(bandwidth, rel=1e-6)


def test_alone_a_step_is_its_computing_and_a_slow_network_shows():
    alone = predicted(1, 0.1, 10**8, 1e-5, 1e9)
    assert alone["step"] == 0.1 and alone["efficiency"] == 1.0
    steps = [predicted(k, 0.1, 10**8, 1e-5, 1e9)["step"] for k in (1, 2, 64, 1024)]
    assert steps == sorted(steps) and steps[-1] > 0.2
    hidden = predicted(64, 0.1, 10**6, 1e-7, 1e9)
    assert hidden["communication"] < 0.05 and hidden["efficiency"] == 1.0
