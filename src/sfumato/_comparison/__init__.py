"""Every mechanism at one request, side by side: what is proved, what attackers find, and what it costs. Private."""
