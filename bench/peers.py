"""Randomized response beside other libraries: perturb all values and estimate all counts, in one interleaved run.

    python bench/peers.py [--rows 1000000] [--values 50] [--repeats 3]

Each library does what it offers for one sensitive column of `--values` values with an amplification of 4: a value is
kept with the same chance everywhere, or, where a library has no such mechanism, is drawn by the nearest that it has.
Libraries that are called for each value are timed on fewer of them. Printed are values each second of processor time,
and how many times as long each takes as sfumato; libraries that are not installed are left out. What is drawn, and from
which source, differs: sfumato and OpenDP draw exactly from a source that cannot be predicted; diffprivlib from such a
source, in floating point; pure-ldp and multi-freq-ldpy from one that can. No other library here writes or reads files,
so that publishing itself is measured by `publish.py`.

The libraries pin versions of others: give them an environment of their own, such as
`pip install . opendp diffprivlib multi-freq-ldpy pure-ldp statsmodels 'scikit-learn<1.7'`.
"""

from __future__ import annotations

import argparse
import math
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato import BreachBound, Histogram
from sfumato.draws import Draws
from sfumato.mechanisms import REGISTRY
from sfumato.shown.tally import Tally

Values = npt.NDArray[np.int64]
AMPLIFICATION = 4
BOUND = BreachBound("1/5", "1/2")
"""A belief of 1/5 may become one of 1/2: odds times 4."""


@dataclass(frozen=True)
class Peer:
    """A library, and how it perturbs values and estimates the count of each."""

    name: str
    run: Callable[[Values, int], npt.NDArray[np.float64]]
    most: int
    """It is timed on so many values at most."""


def by_sfumato(values: Values, size: int) -> npt.NDArray[np.float64]:
    """The mechanism `uniform`, from codes to estimates with their errors."""
    uniform = REGISTRY["uniform"]
    histogram = Histogram.of([f"{value:04d}" for value in range(size)], np.bincount(values, minlength=size).tolist())
    draws = Draws.secret()
    plan = uniform.plan(histogram, BOUND, uniform.options(), draws)
    drawn = uniform.replace(plan, values.astype(np.min_scalar_type(size)), None, draws, 0).values
    tally = Tally.of_symbols(np.bincount(np.asarray(drawn), minlength=size))
    wanted = [np.array([place]) for place in range(size)]
    found = uniform.methods["closed"].count(uniform.design(plan), tally, wanted)
    return np.array([float(moments.value[0]) for moments in found])


def unmixed(shown: npt.NDArray[np.int64], kept: float, other: float) -> npt.NDArray[np.float64]:
    """The unbiased counts, for libraries that leave this to their users."""
    return np.asarray((shown - shown.sum() * other) / (kept - other))


def by_multi_freq(values: Values, size: int) -> npt.NDArray[np.float64]:
    """Its compiled client for each value, and its estimator."""
    from multi_freq_ldpy.pure_frequency_oracles.GRR import (  # noqa: PLC0415
        GRR_Aggregator_MI,
        GRR_Client,
    )

    epsilon = math.log(AMPLIFICATION)
    reports = [GRR_Client(value, size, epsilon) for value in values.tolist()]
    return np.asarray(GRR_Aggregator_MI(reports, size, epsilon)) * len(values)


def by_pure_ldp(values: Values, size: int) -> npt.NDArray[np.float64]:
    """Its client and its server of direct encoding, which number values from one."""
    from pure_ldp.frequency_oracles.direct_encoding import (  # noqa: PLC0415
        DEClient,
        DEServer,
    )

    epsilon = math.log(AMPLIFICATION)
    client, server = DEClient(epsilon=epsilon, d=size), DEServer(epsilon=epsilon, d=size)
    for value in values.tolist():
        server.aggregate(client.privatise(value + 1))
    return np.asarray(server.estimate_all(range(1, size + 1), suppress_warnings=True))


def by_opendp(values: Values, size: int) -> npt.NDArray[np.float64]:
    """Its measurement, called for each value."""
    import opendp.prelude as dp  # noqa: PLC0415

    dp.enable_features("contrib")
    kept = AMPLIFICATION / (AMPLIFICATION + size - 1)
    draw = dp.m.make_randomized_response(list(range(size)), kept)
    shown = np.bincount([draw(value) for value in values.tolist()], minlength=size)
    return unmixed(shown, kept, (1 - kept) / (size - 1))


def by_diffprivlib(values: Values, size: int) -> npt.NDArray[np.float64]:
    """It has no randomized response of several values: the exponential mechanism with two levels of utility."""
    from diffprivlib.mechanisms import ExponentialCategorical  # noqa: PLC0415

    names = [f"{value:04d}" for value in range(size)]
    pairs = [(names[one], names[other], 1) for one in range(size) for other in range(one + 1, size)]
    mechanism = ExponentialCategorical(epsilon=2 * math.log(AMPLIFICATION), utility_list=pairs)
    shown = np.bincount([int(mechanism.randomise(names[value])) for value in values.tolist()], minlength=size)
    kept = AMPLIFICATION / (AMPLIFICATION + size - 1)
    return unmixed(shown, kept, (1 - kept) / (size - 1))


PEERS = (
    Peer("sfumato", by_sfumato, 1 << 30),
    Peer("multi-freq-ldpy", by_multi_freq, 200_000),
    Peer("pure-ldp", by_pure_ldp, 100_000),
    Peer("diffprivlib", by_diffprivlib, 10_000),
    Peer("OpenDP", by_opendp, 10_000),
)


def installed(values: Values, size: int) -> Iterator[Peer]:
    """Those that can be run here: what each compiles or loads once is not timed."""
    for peer in PEERS:
        try:
            found = peer.run(values, size)
        except ImportError as error:
            print(f"{peer.name:>16}: left out ({error})")
        else:
            assert abs(found.sum() - len(values)) < 1, peer.name
            yield peer


def seconds(work: Callable[[], Any]) -> float:
    """Processor time."""
    start = time.process_time()
    work()
    return time.process_time() - start


def main() -> None:
    """Time all in turn, and print the best of each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--values", type=int, default=50)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    values = np.random.default_rng(1).integers(0, options.values, options.rows)
    peers = list(installed(values[:1000], options.values))
    best = dict.fromkeys(peers, math.inf)
    for _ in range(options.repeats):
        for peer in peers:
            some = values[: peer.most]
            best[peer] = min(best[peer], seconds(lambda: peer.run(some, options.values)) / len(some))  # noqa: B023
    ours = best[peers[0]]
    print(f"{options.rows:,} values of {options.values}, perturbed and estimated; processor time")
    for peer in peers:
        print(
            f"{peer.name:>16}: {1 / best[peer] / 1e6:10.3f} million a second, {best[peer] / ours:10,.0f} times as long"
        )


if __name__ == "__main__":
    main()
