"""Chaytor, Wang, Brantingham: "Fine-grain perturbation for privacy preserving data publishing", 2009."""
