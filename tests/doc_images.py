"""Draws the pictures of the documents: `python tests/doc_images.py` writes them anew."""

from __future__ import annotations

from pathlib import Path

from sfumato._figures import BeliefBound, Figure, draw_posterior_by_prior
from sfumato._request.belief_bounds import BreachBound

IMAGES = Path(__file__).parent.parent / "docs" / "images"
SHARES = {"hypertension": 0.22, "type 2 diabetes": 0.14, "back pain": 0.13, "depression": 0.099, "HIV": 0.01}
"""Rounded shares of the demonstration's table."""


def draw_belief_curve() -> Figure:
    """Draws the bound of the README, with the values of its table."""
    bound = BeliefBound.of(BreachBound("1/10", "1/3"), SHARES, is_any_prior=True)
    return draw_posterior_by_prior(bound, 560)


DRAWN = {"belief-curve.svg": draw_belief_curve}


def main() -> None:
    """Writes every picture."""
    IMAGES.mkdir(exist_ok=True)
    for name, draw in DRAWN.items():
        (IMAGES / name).write_text(draw().to_standalone_svg(), encoding="utf-8")


if __name__ == "__main__":
    main()
