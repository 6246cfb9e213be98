"""Beside other libraries, in one interleaved run: perturb and estimate; and publish a table of diverse groups.

    python bench/peers.py [--rows 1000000] [--values 50] [--people 5000] [--repeats 3]

Each library does what it offers for one sensitive column of `--values` values with an amplification of 4: a value is
kept with the same chance everywhere, or, where a library has no such mechanism, is drawn by the nearest that it has.
Libraries that are called for each value are timed on fewer of them. Printed are values each second of processor time,
and how many times as long each takes as sfumato; libraries that are not installed are left out. What is drawn, and from
which source, differs: sfumato and OpenDP draw exactly from a source that cannot be predicted; diffprivlib from such a
source, in floating point; the others from one that can. None of these writes or reads files, so that publishing itself
is measured by `publish.py`.

Then `--people` invented people with three public columns, so that each group holds three different values of the
sensitive one: sfumato publishes buckets of Anatomy, with all files and checks; the others coarsen the public columns.

The libraries pin versions of others: give them an environment of their own, such as
`pip install . opendp diffprivlib multi-freq-ldpy pure-ldp statsmodels 'scikit-learn<1.7' anonypyx`, and
`pip install --no-deps trasgodp anjana pycanon beartype` after it.
"""

from __future__ import annotations

import argparse
import math
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato import BreachBound, Diversity, Histogram, Request, Schema, publish
from sfumato._core.random_draws import Draws
from sfumato._records.tally import Tally
from sfumato.mechanisms import REGISTRY

Values = npt.NDArray[np.int64]
AMPLIFICATION = 4
BOUND = BreachBound("1/5", "1/2")
"""A belief of 1/5 may become one of 1/2: odds times 4."""


@dataclass(frozen=True)
class Peer:
    """A library, and how it perturbs values and estimates the count of each."""

    name: str
    run: Callable[[Any, int], npt.NDArray[np.float64]]
    most: int
    """It is timed on so many values at most."""


def by_sfumato(values: Values, size: int) -> npt.NDArray[np.float64]:
    """The mechanism `uniform`, from codes to estimates with their errors."""
    uniform = REGISTRY["uniform"]
    histogram = Histogram.of([f"{value:04d}" for value in range(size)], np.bincount(values, minlength=size).tolist())
    draws = Draws.from_fresh_key()
    plan = uniform.plan(histogram, BOUND, uniform.options(), draws)
    drawn = uniform.perturb(plan, values.astype(np.min_scalar_type(size)), None, draws, 0).values
    tally = Tally.of_symbols(np.bincount(np.asarray(drawn), minlength=size))
    wanted = [np.array([place]) for place in range(size)]
    found = uniform.estimators["closed"].count(uniform.make_design(plan), tally, wanted)
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


def by_trasgo(values: Values, size: int) -> npt.NDArray[np.float64]:
    """Its randomized response of an array of texts; estimating is left to its users."""
    from trasgodp.categorical import dp_randomized_response_kary_array  # noqa: PLC0415

    names = np.array([f"{value:04d}" for value in range(size)])
    drawn = dp_randomized_response_kary_array(names[values], math.log(AMPLIFICATION))
    shown = np.bincount(np.searchsorted(names, drawn), minlength=size)
    flipped = size / (AMPLIFICATION + size - 1)
    return unmixed(shown, 1 - flipped + flipped / size, flipped / size)


PEERS = (
    Peer("sfumato", by_sfumato, 1 << 30),
    Peer("trasgoDP", by_trasgo, 1 << 30),
    Peer("multi-freq-ldpy", by_multi_freq, 200_000),
    Peer("pure-ldp", by_pure_ldp, 100_000),
    Peer("diffprivlib", by_diffprivlib, 10_000),
    Peer("OpenDP", by_opendp, 10_000),
)


# --------------------------------------------------------------------------------------------------- diverse groups

PUBLIC = ["age", "sex", "region"]
DIVERSITY = 3


def invented(people: int) -> Any:
    """A frame of people."""
    import pandas as pd  # noqa: PLC0415 - comes with the others

    draw = np.random.default_rng(1)
    columns = {name: draw.integers(0, size, people) for name, size in zip(PUBLIC, (80, 2, 16), strict=True)}
    return pd.DataFrame({**columns, "disease": [f"disease {number}" for number in draw.integers(0, 15, people)]})


def anatomy(frame: Any, size: int) -> npt.NDArray[np.float64]:
    """Buckets of so many different values, published with everything that belongs to it."""
    with tempfile.TemporaryDirectory() as folder:
        request = Request(frame, schema=Schema.of("disease", public="*"), spec=Diversity(size), mechanism="anatomy")
        return np.array([publish(request, Path(folder) / "release").release.rows])


def by_anonypyx(frame: Any, size: int) -> npt.NDArray[np.float64]:
    """Mondrian with distinct diversity."""
    import anonypyx  # noqa: PLC0415

    found = anonypyx.Anonymiser(frame, k=size, l=size, feature_columns=PUBLIC, sensitive_column="disease").anonymise()
    return np.array([found["count"].sum()])


def by_anjana(frame: Any, size: int) -> npt.NDArray[np.float64]:
    """Levels of public columns with distinct diversity; up to a tenth of the records may be left out."""
    from anjana.anonymity import l_diversity  # noqa: PLC0415

    levels = {name: {0: frame[name].to_numpy(), 1: (frame[name] // 8 * 8).to_numpy()} for name in PUBLIC}
    hierarchies = {name: {**each, 2: np.full(len(frame), "*")} for name, each in levels.items()}
    texts = frame.astype(dict.fromkeys(PUBLIC, object))
    with redirect_stdout(StringIO()):  # it says what it found
        l_diversity(texts, [], PUBLIC, "disease", size, size, 10, hierarchies)
    return np.array([len(frame)])


GROUPERS = (
    Peer("sfumato", anatomy, 1 << 30),
    Peer("anonypyx", by_anonypyx, 1 << 30),
    Peer("ANJANA", by_anjana, 1 << 30),
)


def installed(peers: Sequence[Peer], values: Any, size: int) -> Iterator[Peer]:
    """Those that can be run here: what each compiles or loads once is not timed."""
    for peer in peers:
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


def compare(peers: Sequence[Peer], values: Any, size: int, repeats: int) -> None:
    """Time all in turn, and print the best of each."""
    found = list(installed(peers, values[:1000], size))
    best = dict.fromkeys(found, math.inf)
    for _ in range(repeats):
        for peer in found:
            some = values[: peer.most]
            best[peer] = min(best[peer], seconds(partial(peer.run, some, size)) / len(some))
    for peer in found:
        times = best[peer] / best[found[0]]
        print(f"{peer.name:>16}: {1 / best[peer] / 1e6:10.4f} million a second, {times:10,.1f} times as long")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--values", type=int, default=50)
    parser.add_argument("--people", type=int, default=5_000)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    print(f"{options.rows:,} values of {options.values}, perturbed and estimated; processor time")
    values = np.random.default_rng(1).integers(0, options.values, options.rows)
    compare(PEERS, values, options.values, options.repeats)
    if find_spec("pandas") is None:
        return
    print(f"{options.people:,} people in groups of {DIVERSITY} different values; processor time")
    compare(GROUPERS, invented(options.people), DIVERSITY, options.repeats)


if __name__ == "__main__":
    main()
