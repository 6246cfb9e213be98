"""Compares mechanisms by their guarantees, by what attackers learn, and by the accuracy of counts."""
