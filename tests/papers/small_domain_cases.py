"""Facts about the planning of small domains, as data; no number here was made by the code that it tests.

Most come from an independent implementation in rationals, on tables with a corner case each and on stand-ins for the
paper's: 50 occupations whose counts fall geometrically from 7.5 percent, 14 educations of which nine are rare, and
counts that fall as 1/i. How they are written:

- counts: "5 1x3" is 5 1 1 1;
- places, and numbers of groups: "3 7-9 4-2" is 3 7 8 9 4 3 2;
- parts: "0 2 | 1" are two cells, of the groups 0 and 2, and of group 1;
- groups: "6: 0; 5: 1-3 | 1: 0" are two groups, one with 6 records of place 0 and 5 of each of the places 1, 2 and 3;
- cells: records, values, prior, amplification, retention and swap probability of each.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

INFINITE = float("inf")


@dataclass(frozen=True)
class Case:
    """A table, a request, and what each phase makes of it when it merges by the paper's error bound."""

    name: str
    counts: str
    prior: str
    posterior: str
    protected: str
    balance: int
    """How often the largest protected count fits in the whole table."""
    protected_balance: int
    """How often it fits in the records of protected values; the same if all are."""
    parts: str
    """One after the other, they are also the rearranged order."""
    tables: str
    """The digest of the counts in each cell."""
    cells: str
    bound: float
    bound_of_the_whole: float
    bound_of_the_groups: float
    variance: float
    """Of all reconstructed counts, divided by the records and by the values."""
    groups: str = ""
    sizes: str = ""
    """Of the groups, where they are too many to write down."""


@dataclass(frozen=True)
class VarianceCase:
    """A table, a request, and the cells with the least variance."""

    name: str
    counts: str
    prior: str
    posterior: str
    minimum: int
    parts: str
    variance: float
    variance_by_bound: float
    """The variance if it is merged by the paper's error bound instead, without a minimum."""


@dataclass(frozen=True)
class Partition:
    """Cells that nobody planned."""

    name: str
    counts: str
    prior: str
    posterior: str
    tables: str
    amplifications: tuple[str, ...]
    can_rise: tuple[bool, ...]
    """Whether the largest share of a protected value, in each cell, lies below the posterior."""
    bound: float


def numbers(text: str) -> tuple[int, ...]:
    """Read counts."""
    runs = [token.partition("x") for token in text.split()]
    return tuple(int(count) for count, _, times in runs for _ in range(int(times or 1)))


def places(text: str) -> tuple[int, ...]:
    """Read places, or the numbers of groups."""
    found: list[int] = []
    for token in text.split():
        first, last = (int(end) for end in (token.split("-") * 2)[:2])
        found += range(first, last + 1) if first <= last else range(first, last - 1, -1)
    return tuple(found)


def parts(text: str) -> tuple[tuple[int, ...], ...]:
    """Read the groups of each cell."""
    return tuple(places(part) for part in text.split("|"))


def groups(text: str, size: int) -> tuple[tuple[int, ...], ...]:
    """Read groups over a domain of the given size."""
    return tuple(_group(group, size) for group in text.split("|"))


def _group(text: str, size: int) -> tuple[int, ...]:
    group = [0] * size
    for piece in text.split(";"):
        count, _, where = piece.partition(":")
        for place in places(where):
            group[place] = int(count)
    return tuple(group)


def cells(text: str) -> list[tuple[Fraction, ...]]:
    """Read what is known of each cell."""
    return [tuple(map(Fraction, cell.split())) for cell in text.split("|")]


def digest(tables: Sequence[Sequence[int]]) -> str:
    """What stands for tables that are too large to write down."""
    return hashlib.sha256(json.dumps(tables, separators=(",", ":")).encode()).hexdigest()[:16]


EDUCATION_300K = "81900 61500 49500 37500 25500 9750 8400 7050 5700 4500 3300 2400 1800 1200"

OCCUPATIONS_100K = (
    "7500 6950 6440 5968 5530 5125 4749 4401 4078 3779 3502 3245 3007 2786 2582 2393 2217 2055 1904 1764 1635 "
    "1515 1404 1301 1206 1117 1035 959 889 824 763 707 655 607 563 522 483 448 415 385 356 330 306 284 263 244 "
    "226 209 194 180"
)

OCCUPATIONS_200K = (
    "15000 13900 12881 11936 11061 10249 9498 8801 8156 7558 7003 6490 6014 5573 5164 4785 4434 4109 3808 3529 "
    "3270 3030 2808 2602 2411 2234 2070 1919 1778 1648 1527 1415 1311 1215 1126 1043 967 896 830 769 713 661 612 "
    "567 526 487 451 418 388 359"
)

OCCUPATIONS_300K = (
    "22500 20850 19321 17904 16591 15374 14247 13202 12234 11337 10505 9735 9021 8359 7746 7178 6652 6164 5712 "
    "5293 4905 4545 4212 3903 3617 3351 3106 2878 2667 2471 2290 2122 1967 1822 1689 1565 1450 1344 1245 1154 "
    "1069 991 918 851 788 731 677 627 581 539"
)

OCCUPATIONS_400K = (
    "30000 27800 25761 23872 22121 20499 18996 17603 16312 15116 14007 12980 12028 11146 10328 9571 8869 8219 "
    "7616 7057 6540 6060 5616 5204 4822 4469 4141 3837 3556 3295 3053 2830 2622 2430 2252 2086 1933 1792 1660 "
    "1538 1426 1321 1224 1134 1051 974 903 837 775 718"
)

OCCUPATIONS_500K = (
    "37500 34750 32201 29840 27652 25624 23745 22003 20390 18894 17509 16225 15035 13932 12910 11964 11086 10273 "
    "9520 8822 8175 7575 7020 6505 6028 5586 5176 4797 4445 4119 3817 3537 3277 3037 2814 2608 2417 2240 2075 "
    "1923 1782 1651 1530 1418 1314 1218 1128 1046 969 898"
)

ZIPF_40_300K = (
    "70117 35059 23372 17529 14023 11686 10017 8765 7791 7012 6374 5843 5394 5008 4675 4382 4125 3895 3690 3506 "
    "3339 3187 3049 2922 2805 2697 2597 2504 2418 2337 2262 2191 2125 2062 2003 1948 1895 1845 1798 1753"
)

ZIPF_40_96K = (
    "22425 11212 7475 5606 4485 3737 3204 2803 2492 2242 2039 1869 1725 1602 1495 1402 1319 1246 1180 1121 1068 "
    "1019 975 934 897 862 831 801 773 747 723 701 680 660 641 623 606 590 575 561"
)

ZIPF_717_100K = (
    "13980 6990 4660 3495 2796 2330 1997 1748 1553 1398 1271 1165 1075 999 932 874 822 777 736 699 666 635 608 "
    "582 559 538 518 499 482 466 451 437 424 411 399 388 378 368 358 349 341 333 325 318 311 304 297 291 285 280 "
    "274 269 264 259 254 250 245 241 237 233 229 225 222 218 215 212 209 206 203 200 197 194 191 189 186 184 182 "
    "179 177 175 173 170 168 166 164 163 161 159 157 155 154 152 150 149 147 146 144 143 141 140 138 137 136 134 "
    "133 132 131 129 128 127 126 125 124 123 122 121 119 118 117 116x2 115 114 113 112 111 110 109 108x2 107 106 "
    "105 104x2 103 102 101x2 100 99 98x2 97 96x2 95 94x2 93x2 92 91x2 90x2 89 88x2 87x2 86x2 85x2 84x2 83x2 82x2 "
    "81x2 80x2 79x3 78x2 77x2 76x3 75x2 74x3 73x2 72x3 71x3 70x3 69x3 68x3 67x3 66x3 65x3 64x4 63x3 62x4 61x4 "
    "60x3 59x4 58x5 57x4 56x4 55x5 54x5 53x5 52x5 51x5 50x6 49x6 48x6 47x6 46x7 45x7 44x7 43x7 42x8 41x9 40x8 "
    "39x10 38x9 37x10 36x11 35x12 34x12 33x13 32x13 31x15 30x15 29x17 28x18 27x19 26x21 25x22 24x24 23x27 22x28 "
    "21x32 20x35 19"
)


GROUPS_OCCUPATIONS_300K = (
    "9021: 0-12 | 5293: 0-5 13-19 | 3213: 0-3 6-8 20-25 | 2013: 0 1 4 6 9 13 14 26-31 | 1332: 0 2 10 15 16 20 21 "
    "32-37 | 871: 0 1 5 7 13 17 22 26 38-42 | 553: 0 11 15 23 27 28 32 43-48 | 312: 1-3 14 18 20 24 27 29 33 34 "
    "38 49 | 182: 0 4 5 9 13 26 30 35 39 40 43 44 49 | 121: 1 2 9-11 14 22 23 25 29 33 45 46 | 74: 4 7 18 24 28 "
    "30-32 36 39 41 43 47 | 42: 3 20 33-36 38 41-45 49 | 23: 2 3 7 10 11 16 18 26 28 29 31 39 48 | 12: 0 11 23-26 "
    "30 31 33 37 38 40 45 | 6: 0 1 4 5 10 14 18 22 30 32 35 38 44 | 4: 0 2 11 16 18 20 23-26 42 44 48 | 2: 2 4 28 "
    "30 33-35 39-41 45 46 49 | 1: 5 10 11 20 24 28 29 32 36 38-41 | 1: 10 14 20 22 24-26 28-30 32-36 38-42 44-46 "
    "48 49"
)

GROUPS_OCCUPATIONS_100K = (
    "3007: 0-12 | 1764: 0-5 13-19 | 1071: 0-3 6-8 20-25 | 671: 0 1 4 6 9 13 14 26-31 | 444: 0 2 10 15 16 20 21 "
    "32-37 | 291: 0 1 5 7 13 17 22 26 38-42 | 185: 0 11 15 23 27 28 32 43-48 | 103: 1-3 14 18 20 24 27 29 33 34 "
    "38 49 | 60: 0 4 5 9 13 26 30 35 39 40 43 44 49 | 41: 1 2 9-11 14 22 23 25 29 33 45 46 | 24: 4 7 18 24 28 "
    "30-32 36 39 41 43 47 | 15: 3 20 33-36 38 41-45 49 | 8: 2 3 7 10 11 16 18 26 28 29 31 39 48 | 4: 0 4 11 18 "
    "23-26 30 31 33 38 40 | 2: 0-2 5 10 14 20 24 30 35 37 44 45 | 1: 0 5 14 16 18 22 24 30 32 37-39 49 | 1: 24-26 "
    "28-30 32 34 35 37-40 44 45 48 49"
)

GROUPS_EDUCATION_300K = (
    "81900: 0; 50402: 1; 5700: 5-8 | 11098: 1; 49500: 2; 2071: 3; 2700: 5 6 9 10 | 29593: 3; 1275: 5 9 11 12 | "
    "5836: 3; 8090: 4; 600: 7 10 11 13 | 5222: 4; 225: 7 9 11 13 | 5222: 4; 225: 7 9 12 13 | 3481: 4; 150: 7 "
    "11-13 | 1740: 4; 75: 5 7 11 12 | 1745: 4; 75: 7 9 11 12"
)


CASES = (
    Case(
        name="examples 1 to 4",
        counts="12 8 6 5 4 3 1x4",
        prior="1/3",
        posterior="2/3",
        protected="0-9",
        balance=3,
        protected_balance=3,
        groups="6: 0-2 | 4: 0 3 4 | 2: 0 1 5 | 1: 3 5 6 | 1: 7-9",
        parts="0 2 1 | 3 4",
        tables="a1a93821c8ac10e0",
        cells="36 6 1/3 4 1/3 1/9 | 6 6 1/6 10 3/5 1/15",
        bound=2.0196487259292377,
        bound_of_the_whole=2.0745343324385495,
        bound_of_the_groups=2.4914127312858634,
        variance=0.5925925925925927,
    ),
    Case(
        name="example 7, not all protected",
        counts="12 8 6 5 4 3 1x4",
        prior="1/4",
        posterior="2/3",
        protected="1-9",
        balance=5,
        protected_balance=3,
        groups="6: 0; 5: 1-3 | 3: 0 1 4 5 | 1: 0 2 4 6 | 2: 0; 1: 7-9",
        parts="2-0 3",
        tables="5ba1910f27513e40",
        cells="42 10 4/21 17/2 3/7 2/35",
        bound=1.383022888292366,
        bound_of_the_whole=1.383022888292366,
        bound_of_the_groups=1.9504869479665534,
        variance=0.3999999999999999,
    ),
    Case(
        name="tight from the start",
        counts="7 3 2x2",
        prior="1/2",
        posterior="3/4",
        protected="0-3",
        balance=2,
        protected_balance=2,
        groups="3: 0 1 | 2: 0 2 | 2: 0 3",
        parts="1 0 2",
        tables="440ab6d895525f80",
        cells="14 4 1/2 3 1/3 1/6",
        bound=3.0798847421396154,
        bound_of_the_whole=3.0798847421396154,
        bound_of_the_groups=3.5391954242164223,
        variance=1.5,
    ),
    Case(
        name="second case of the height, then a residual group",
        counts="5 4x2",
        prior="5/13",
        posterior="3/5",
        protected="0-2",
        balance=2,
        protected_balance=2,
        groups="2: 0 1 | 2: 0 2 | 1: 1 2 | 1: 0-2",
        parts="2-0 3",
        tables="c55a7c4c9a8ac1cd",
        cells="13 3 5/13 12/5 7/22 5/22",
        bound=3.3483449420753817,
        bound_of_the_whole=3.3483449420753817,
        bound_of_the_groups=9.278548637133133,
        variance=1.9727891156462585,
    ),
    Case(
        name="largest count divides the table",
        counts="5x3 4x2 1x2",
        prior="1/5",
        posterior="2/5",
        protected="0-6",
        balance=5,
        protected_balance=5,
        groups="4: 0-4 | 1: 0-2 5 6",
        parts="0 1",
        tables="f6e31d79bf6414c6",
        cells="25 7 1/5 8/3 5/26 3/26",
        bound=3.99494281189087,
        bound_of_the_whole=3.99494281189087,
        bound_of_the_groups=4.12290632012868,
        variance=3.1885714285714277,
    ),
    Case(
        name="unprotected values missing from cells",
        counts="12 10 5 2 1x3",
        prior="5/32",
        posterior="1/5",
        protected="2-6",
        balance=6,
        protected_balance=2,
        groups="8: 0; 2: 2 3 | 4: 0; 1: 2 4 | 4: 1; 1: 2 5 | 6: 1; 1: 2 6",
        parts="2 | 1 0 | 3",
        tables="9dcd2cb77be2fe84",
        cells="6 3 1/6 5/4 1/13 4/13 | 18 4 1/6 5/4 1/17 4/17 | 8 3 1/8 7/4 1/5 4/15",
        bound=14.17801290155819,
        bound_of_the_whole=14.2600659152765,
        bound_of_the_groups=14.748420148003227,
        variance=20.928571428571427,
    ),
    Case(
        name="most frequent value above one half",
        counts="60 40",
        prior="3/5",
        posterior="9/10",
        protected="0 1",
        balance=1,
        protected_balance=1,
        groups="60: 0 | 40: 1",
        parts="0 1",
        tables="8b561c7f46c35b93",
        cells="100 2 3/5 6 5/7 1/7",
        bound=0.5377807631391556,
        bound_of_the_whole=0.5377807631391556,
        bound_of_the_groups=INFINITE,
        variance=0.23999999999999996,
    ),
    Case(
        name="posterior below the share in flat groups",
        counts="30 20 18 17 15",
        prior="3/10",
        posterior="8/25",
        protected="0-4",
        balance=3,
        protected_balance=3,
        groups="16: 0-2 | 13: 0 3 4 | 2: 1-3 | 1: 1 3 4 | 1: 0 1 3 4",
        parts="3-0 4",
        tables="cfb993ef9693e4b4",
        cells="100 5 3/10 56/51 1/52 51/260",
        bound=19.97471405945433,
        bound_of_the_whole=19.97471405945433,
        bound_of_the_groups=INFINITE,
        variance=432.48,
    ),
    Case(
        name="one protected value",
        counts="70 26 4",
        prior="1/20",
        posterior="1/2",
        protected="2",
        balance=25,
        protected_balance=1,
        groups="70: 0; 26: 1; 4: 2",
        parts="0",
        tables="06baa0bc177cf36e",
        cells="100 3 1/25 24 23/26 1/26",
        bound=0.4342329143359641,
        bound_of_the_whole=0.4342329143359641,
        bound_of_the_groups=0.4342329143359641,
        variance=0.061751732829237585,
    ),
    Case(
        name="two protected values",
        counts="70 20 6 4",
        prior="1/15",
        posterior="1/2",
        protected="2 3",
        balance=16,
        protected_balance=1,
        groups="54: 0; 6: 2 | 16: 0; 20: 1; 4: 3",
        parts="0 1",
        tables="5851d684f97bbd2a",
        cells="100 4 3/50 47/3 11/14 3/56",
        bound=0.4888916028537778,
        bound_of_the_whole=0.4888916028537778,
        bound_of_the_groups=0.7059802218261151,
        variance=0.11621900826446283,
    ),
    Case(
        name="two values",
        counts="6 4",
        prior="3/5",
        posterior="4/5",
        protected="0 1",
        balance=1,
        protected_balance=1,
        groups="6: 0 | 4: 1",
        parts="0 1",
        tables="2a5cd398b4e79333",
        cells="10 2 3/5 8/3 5/11 3/11",
        bound=2.6723904323965426,
        bound_of_the_whole=2.6723904323965426,
        bound_of_the_groups=INFINITE,
        variance=0.9600000000000002,
    ),
    Case(
        name="uniform",
        counts="10x6",
        prior="1/6",
        posterior="1/2",
        protected="0-5",
        balance=6,
        protected_balance=6,
        groups="10: 0-5",
        parts="0",
        tables="d1fcd61e88c501b6",
        cells="60 6 1/6 5 2/5 1/10",
        bound=1.239771392588491,
        bound_of_the_whole=1.239771392588491,
        bound_of_the_groups=1.239771392588491,
        variance=0.7291666666666665,
    ),
    Case(
        name="occupations 300K, 1/6",
        counts=OCCUPATIONS_300K,
        prior="1/13",
        posterior="1/6",
        protected="0-49",
        balance=13,
        protected_balance=13,
        groups=GROUPS_OCCUPATIONS_300K,
        parts="3 | 18-12 | 8 | 7 | 6 | 5 | 4 | 2 | 1 | 0 | 10 9 | 11",
        tables="1251c1317adbf024",
        cells=(
            "26169 13 1/13 12/5 7/72 5/72 | 649 38 40/649 609/200 409/8009 200/8009 | 2366 13 1/13 12/5 7/72 5/72 "
            "| 4056 13 1/13 12/5 7/72 5/72 | 7189 13 1/13 12/5 7/72 5/72 | 11323 13 1/13 12/5 7/72 5/72 | 17316 "
            "13 1/13 12/5 7/72 5/72 | 41769 13 1/13 12/5 7/72 5/72 | 68809 13 1/13 12/5 7/72 5/72 | 117273 13 "
            "1/13 12/5 7/72 5/72 | 2535 26 121/2535 2414/605 1809/17539 605/17539 | 546 13 1/13 12/5 7/72 5/72"
        ),
        bound=0.2008909167037606,
        bound_of_the_whole=0.2460997766579482,
        bound_of_the_groups=0.205227986161715,
        variance=1.9453849169048796,
    ),
    Case(
        name="occupations 300K, 1/5",
        counts=OCCUPATIONS_300K,
        prior="1/13",
        posterior="1/5",
        protected="0-49",
        balance=13,
        protected_balance=13,
        groups=GROUPS_OCCUPATIONS_300K,
        parts="3 | 18-12 | 8 | 7 | 6 | 5 | 4 | 2 | 1 | 0 | 10 9 | 11",
        tables="1251c1317adbf024",
        cells=(
            "26169 13 1/13 3 2/15 1/15 | 649 38 40/649 609/160 449/6529 160/6529 | 2366 13 1/13 3 2/15 1/15 | "
            "4056 13 1/13 3 2/15 1/15 | 7189 13 1/13 3 2/15 1/15 | 11323 13 1/13 3 2/15 1/15 | 17316 13 1/13 3 "
            "2/15 1/15 | 41769 13 1/13 3 2/15 1/15 | 68809 13 1/13 3 2/15 1/15 | 117273 13 1/13 3 2/15 1/15 | "
            "2535 26 121/2535 1207/242 965/7257 242/7257 | 546 13 1/13 3 2/15 1/15"
        ),
        bound=0.1468591777090477,
        bound_of_the_whole=0.1753301517640823,
        bound_of_the_groups=0.14967573255913433,
        variance=1.0270675546222425,
    ),
    Case(
        name="occupations 300K, 1/4",
        counts=OCCUPATIONS_300K,
        prior="1/13",
        posterior="1/4",
        protected="0-49",
        balance=13,
        protected_balance=13,
        groups=GROUPS_OCCUPATIONS_300K,
        parts="3 | 18-12 | 8 | 7 | 6 | 5 | 4 | 2 | 1 | 0 | 10 9 | 11",
        tables="1251c1317adbf024",
        cells=(
            "26169 13 1/13 4 3/16 1/16 | 649 38 40/649 203/40 163/1683 40/1683 | 2366 13 1/13 4 3/16 1/16 | 4056 "
            "13 1/13 4 3/16 1/16 | 7189 13 1/13 4 3/16 1/16 | 11323 13 1/13 4 3/16 1/16 | 17316 13 1/13 4 3/16 "
            "1/16 | 41769 13 1/13 4 3/16 1/16 | 68809 13 1/13 4 3/16 1/16 | 117273 13 1/13 4 3/16 1/16 | 2535 26 "
            "121/2535 2414/363 2051/11489 363/11489 | 546 13 1/13 4 3/16 1/16"
        ),
        bound=0.10459193599398409,
        bound_of_the_whole=0.11972544649033048,
        bound_of_the_groups=0.10645558780670009,
        variance=0.5106748565648577,
    ),
    Case(
        name="occupations 300K, 1/3",
        counts=OCCUPATIONS_300K,
        prior="1/13",
        posterior="1/3",
        protected="0-49",
        balance=13,
        protected_balance=13,
        groups=GROUPS_OCCUPATIONS_300K,
        parts="3 | 18-12 | 8 | 7 | 6 | 5 | 4 | 2 | 1 0 | 10 9 | 11",
        tables="83a8ff9637aabd49",
        cells=(
            "26169 13 1/13 6 5/18 1/18 | 649 38 40/649 609/80 529/3569 80/3569 | 2366 13 1/13 6 5/18 1/18 | 4056 "
            "13 1/13 6 5/18 1/18 | 7189 13 1/13 6 5/18 1/18 | 11323 13 1/13 6 5/18 1/18 | 17316 13 1/13 6 5/18 "
            "1/18 | 41769 13 1/13 6 5/18 1/18 | 186082 20 1/13 6 1/5 1/25 | 2535 26 121/2535 1207/121 543/2116 "
            "121/4232 | 546 13 1/13 6 5/18 1/18"
        ),
        bound=0.07034161772873422,
        bound_of_the_whole=0.07488294223730482,
        bound_of_the_groups=0.07186949462510266,
        variance=0.3685254735204863,
    ),
    Case(
        name="occupations 100K, 1/6",
        counts=OCCUPATIONS_100K,
        prior="1/13",
        posterior="1/6",
        protected="0-49",
        balance=13,
        protected_balance=13,
        groups=GROUPS_OCCUPATIONS_100K,
        parts="1 | 0 | 15-12 8-6 | 5 | 4 | 2 | 11 | 10 9 | 3 | 16",
        tables="8db6d161c54e2e7c",
        cells=(
            "22932 13 1/13 12/5 7/72 5/72 | 39091 13 1/13 12/5 7/72 5/72 | 4719 41 96/1573 1477/480 997/20677 "
            "480/20677 | 3783 13 1/13 12/5 7/72 5/72 | 5772 13 1/13 12/5 7/72 5/72 | 13923 13 1/13 12/5 7/72 5/72 "
            "| 195 13 1/13 12/5 7/72 5/72 | 845 26 41/845 804/205 599/5929 205/5929 | 8723 13 1/13 12/5 7/72 5/72 "
            "| 17 17 1/17 16/5 11/96 5/96"
        ),
        bound=0.3484688741034715,
        bound_of_the_whole=0.4262573169029195,
        bound_of_the_groups=0.3539772115954455,
        variance=2.2378382142096873,
    ),
    Case(
        name="educations, 1/30 to 1/10",
        counts=EDUCATION_300K,
        prior="1/30",
        posterior="1/10",
        protected="5-13",
        balance=30,
        protected_balance=4,
        groups=GROUPS_EDUCATION_300K,
        parts="1 8 7 5-2 0 6",
        tables="319a38a392d44c71",
        cells="300000 14 13/400 43/13 15/106 13/212",
        bound=0.04955998956531393,
        bound_of_the_whole=0.04955998956531393,
        bound_of_the_groups=0.06680966368332093,
        variance=3.2458730158730167,
    ),
    Case(
        name="educations, 1/13 to 1/4",
        counts=EDUCATION_300K,
        prior="1/13",
        posterior="1/4",
        protected="5-13",
        balance=30,
        protected_balance=4,
        groups=GROUPS_EDUCATION_300K,
        parts="1 8 7 5-2 0 6",
        tables="319a38a392d44c71",
        cells="300000 14 13/400 129/13 58/149 13/298",
        bound=0.018016684560585004,
        bound_of_the_whole=0.018016684560585004,
        bound_of_the_groups=0.028945077138383752,
        variance=0.3714009682350943,
    ),
    Case(
        name="40 values, 1/5",
        counts=ZIPF_40_96K,
        prior="1/13",
        posterior="1/5",
        protected="3-39",
        balance=17,
        protected_balance=9,
        groups=(
            "12611: 0; 1869: 3-11 | 8900: 0; 1319: 3-6 12-16 | 914: 0; 5388: 1; 934: 3 4 7 17-22 | 4878: 1; 723: "
            "3 23-30 | 946: 1; 3035: 2; 590: 3 8 31-37 | 1659: 2; 246: 4 5 9 12 13 17 18 38 39 | 1147: 2; 170: 3 "
            "5 10 14 19 23 24 38 39 | 749: 2; 111: 4 5 9 12 20 25 31 38 39 | 337: 2; 50: 15 17 21 26-28 32-34 | "
            "229: 2; 34: 12 13 21-23 26 32 38 39 | 148: 2; 22: 5 8 15 20 25-27 29 35 | 74: 2; 11: 6 8 9 12 17 19 "
            "33 36 38 | 40: 2; 6: 4 14 15 19 22 23 25 33 35 | 20: 2; 3: 6 9 12 15 17 27 32 35 36 | 13: 2; 2: 6 9 "
            "13 15 24 27 32 33 38 | 6: 2; 1: 3 12 13 17 24 26 29 35 36 | 18: 2; 1: 17 20-24 26 27 29 32-36 38"
        ),
        parts="9 8 16 15 13 12 10 7 6 4 14 11 5 | 2 | 1 | 3 | 0",
        tables="aaa7da37774ea1c1",
        cells=(
            "19650 35 761/19650 18889/3044 3169/24477 3044/122385 | 14708 11 467/7354 6887/1868 5019/25567 "
            "1868/25567 | 20771 10 1319/20771 4863/1319 1772/8367 1319/16734 | 11385 10 241/3795 1777/482 "
            "259/1223 482/6115 | 29432 10 1869/29432 27563/7476 20087/94847 7476/94847"
        ),
        bound=0.14792986014986975,
        bound_of_the_whole=0.17618267310563765,
        bound_of_the_groups=0.17513765679235263,
        variance=0.6862471249957475,
    ),
    Case(
        name="717 values, 1/4",
        counts=ZIPF_717_100K,
        prior="1/13",
        posterior="1/4",
        protected="1-716",
        balance=14,
        protected_balance=12,
        sizes=(
            "14996 10267 7505 6096 4757 3975 3362 2873 2594 2287 2078 1897 1757 1604 1464 1353 1269 1199 1143 "
            "1074 1018 976 920 878 837 809 767 739 711 683 655 641 613 599 571 558 544 530 516 502 488 474 460x2 "
            "446 432 418x2 404 390x2 376x2 362x2 348x2 334x2 320x3 306x2 292x3 279x3 265 167 139 111 83 69 55 "
            "41x2 27x4 13x24 87"
        ),
        parts=(
            "106-84 | 83-79 | 78-74 | 73-65 | 64 | 63 | 62 | 61 | 60 | 59 | 58 | 57 | 56 | 55 | 54 | 53 | 52 | 51 "
            "| 50 | 49 | 48 | 47 | 46 | 45 | 44 | 43 | 42 | 41 | 40 | 39 | 38 | 37 | 36 | 35 | 34 | 33 | 32 | 31 "
            "| 30 | 29 | 28 | 27 | 26 | 25 | 24 | 23 | 22 | 21 | 20 | 19 | 18 | 17 | 16 | 15 | 14 | 13 | 12 | 11 "
            "| 10 | 9 | 8 | 7 | 6 | 5 | 4 | 3 | 2 | 1 0 | 107"
        ),
        tables="c08cfdb58de856ed",
        cells=(
            "299 277 1/299 298/3 295/1126 3/1126 | 121 61 2/121 119/6 113/479 6/479 | 289 61 6/289 283/18 "
            "265/1363 18/1363 | 2103 109 7/701 694/21 673/2962 21/2962 | 292 13 21/292 271/63 16/79 63/1027 | 306 "
            "13 11/153 142/33 109/538 33/538 | 306 13 11/153 142/33 109/538 33/538 | 320 13 23/320 99/23 76/375 "
            "23/375 | 320 13 23/320 99/23 76/375 23/375 | 320 13 23/320 99/23 76/375 23/375 | 334 13 12/167 "
            "155/36 119/587 36/587 | 334 13 12/167 155/36 119/587 36/587 | 348 13 25/348 323/75 248/1223 75/1223 "
            "| 348 13 25/348 323/75 248/1223 75/1223 | 362 13 13/181 56/13 43/212 13/212 | 362 13 13/181 56/13 "
            "43/212 13/212 | 376 13 27/376 349/81 268/1321 81/1321 | 376 13 27/376 349/81 268/1321 81/1321 | 390 "
            "13 14/195 181/42 139/685 42/685 | 390 13 14/195 181/42 139/685 42/685 | 404 13 29/404 125/29 96/473 "
            "29/473 | 418 13 15/209 194/45 149/734 45/734 | 418 13 15/209 194/45 149/734 45/734 | 432 13 31/432 "
            "401/93 308/1517 93/1517 | 446 13 16/223 69/16 53/261 16/261 | 460 13 33/460 427/99 328/1615 99/1615 "
            "| 460 13 33/460 427/99 328/1615 99/1615 | 474 13 17/237 220/51 13/64 51/832 | 488 13 35/488 151/35 "
            "116/571 35/571 | 502 13 18/251 233/54 179/881 54/881 | 516 13 37/516 479/111 368/1811 111/1811 | 530 "
            "13 19/265 82/19 63/310 19/310 | 544 13 39/544 505/117 388/1909 117/1909 | 558 13 20/279 259/60 "
            "199/979 60/979 | 571 13 41/571 530/123 407/2006 123/2006 | 599 13 43/599 556/129 427/2104 129/2104 | "
            "613 13 44/613 569/132 437/2153 132/2153 | 641 13 46/641 595/138 457/2251 138/2251 | 655 13 47/655 "
            "608/141 467/2300 141/2300 | 683 13 49/683 634/147 487/2398 147/2398 | 711 13 17/237 220/51 13/64 "
            "51/832 | 739 13 53/739 686/159 527/2594 159/2594 | 767 13 55/767 712/165 547/2692 165/2692 | 809 13 "
            "58/809 751/174 577/2839 174/2839 | 837 13 20/279 259/60 199/979 60/979 | 878 13 63/878 815/189 "
            "626/3083 189/3083 | 920 13 33/460 427/99 328/1615 99/1615 | 976 13 35/488 151/35 116/571 35/571 | "
            "1018 13 73/1018 315/73 242/1191 73/1191 | 1074 13 77/1074 997/231 766/3769 231/3769 | 1143 13 "
            "82/1143 1061/246 815/4013 246/4013 | 1199 13 86/1199 371/86 285/1403 86/1403 | 1269 13 91/1269 "
            "1178/273 905/4454 273/4454 | 1353 13 97/1353 1256/291 965/4748 291/4748 | 1464 13 35/488 151/35 "
            "116/571 35/571 | 1604 13 115/1604 1489/345 88/433 345/5629 | 1757 13 18/251 233/54 179/881 54/881 | "
            "1897 13 136/1897 587/136 451/2219 136/2219 | 2078 13 149/2078 643/149 38/187 149/2431 | 2287 13 "
            "164/2287 2123/492 1631/8027 492/8027 | 2594 13 93/1297 1204/279 925/4552 279/4552 | 2873 13 206/2873 "
            "889/206 683/3361 206/3361 | 3362 13 241/3362 3121/723 2398/11797 723/11797 | 3975 13 19/265 82/19 "
            "63/310 19/310 | 4757 13 341/4757 1472/341 87/428 341/5564 | 6096 13 437/6096 5659/1311 4348/21391 "
            "1311/21391 | 7505 13 538/7505 6967/1614 5353/26335 1614/26335 | 25263 19 1811/25263 23452/5433 "
            "18019/121246 5433/121246 | 87 17 1/87 86/3 83/134 3/134"
        ),
        bound=0.4169906906346073,
        bound_of_the_whole=2.5473990856811706,
        bound_of_the_groups=0.4575097740321373,
        variance=0.036982078537493725,
    ),
)

VARIANCE_CASES = (
    VarianceCase(
        name="example",
        counts="12 8 6 5 4 3 1x4",
        prior="1/3",
        posterior="2/3",
        minimum=0,
        parts="0 | 1 | 2 | 3 4",
        variance=80.88888888888889,
        variance_by_bound=248.8888888888889,
    ),
    VarianceCase(
        name="occupations, 1/3",
        counts=OCCUPATIONS_300K,
        prior="1/13",
        posterior="1/3",
        minimum=0,
        parts="0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8 | 9 | 10 | 11 | 12 | 13 | 14 | 15 | 16 | 17 | 18",
        variance=3311957.0578512396,
        variance_by_bound=5527882.102807295,
    ),
    VarianceCase(
        name="occupations, 1/6",
        counts=OCCUPATIONS_300K,
        prior="1/13",
        posterior="1/6",
        minimum=0,
        parts="0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8 | 9 10 | 11 | 12 | 13 | 14 | 15 | 16 | 17 | 18",
        variance=29000811.880787298,
        variance_by_bound=29180773.753573194,
    ),
    VarianceCase(
        name="occupations, 1/6, at least 1000 records",
        counts=OCCUPATIONS_300K,
        prior="1/13",
        posterior="1/6",
        minimum=1000,
        parts="0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8 | 9 10 | 11-18",
        variance=29211607.14426152,
        variance_by_bound=29180773.753573194,
    ),
    VarianceCase(
        name="educations, 1/6",
        counts=EDUCATION_300K,
        prior="1/13",
        posterior="1/6",
        minimum=0,
        parts="0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8",
        variance=1234325.64263898,
        variance_by_bound=3799419.389684039,
    ),
    VarianceCase(
        name="40 values, 1/6",
        counts=ZIPF_40_300K,
        prior="1/13",
        posterior="1/6",
        minimum=0,
        parts="0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8 | 9 | 10 | 11 | 12 | 13 | 14 | 15 | 16 | 17 | 18",
        variance=10345880.56743895,
        variance_by_bound=13841323.21238864,
    ),
)

PARTITIONS = (
    Partition(
        name="example 1",
        counts="12 8 6 5 4 3 1x4",
        prior="1/3",
        posterior="2/3",
        tables="12: 0; 8: 1; 6: 2; 4: 3 4; 2: 5 | 1: 3 5-9",
        amplifications=("4", "10"),
        can_rise=(True, True),
        bound=2.0196487259292377,
    ),
    Partition(
        name="a single protected value",
        counts="6x3",
        prior="1/3",
        posterior="2/3",
        tables="6: 0 | 6: 1 2",
        amplifications=("0", "2"),
        can_rise=(False, True),
        bound=INFINITE,
    ),
    Partition(
        name="no protected value",
        counts="60 20x2",
        prior="1/4",
        posterior="1/2",
        tables="30: 0 | 30: 0; 20: 1 2",
        amplifications=("inf", "5/2"),
        can_rise=(True, True),
        bound=1.1745526125973016,
    ),
    Partition(
        name="domain split of section 1.1",
        counts="40 30 29 1",
        prior="2/5",
        posterior="1/2",
        tables="40: 0; 1: 3 | 30: 1; 29: 2",
        amplifications=("1/40", "29/30"),
        can_rise=(False, False),
        bound=INFINITE,
    ),
)
