"""The published works, by the first part of the names of their experiments."""

WORKS = {
    "small-domain": 'Chaytor, Wang, "Small domain randomization: same privacy, more utility", 2010',
    "fine-grain": 'Chaytor, Wang, Brantingham, "Fine-grain perturbation for privacy preserving data publishing", 2009',
    "small-sums": 'Fu, Wang, Wong, Wang, Jiang, "Small sum privacy and large sum utility in data publishing", 2014',
    "buckets": 'Wang, "Multiple-sized bucketization for privacy protection", thesis, 2014',
    "beyond": "All works: what none of them shows",
}


def find_work(name: str) -> str:
    """The work that an experiment is of, in words; the first part of its name where that says it."""
    first = name.partition("/")[0]
    return WORKS.get(first, first)
