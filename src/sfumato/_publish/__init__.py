"""Plans and publishes a release: the request, the plan with its warnings, and the publication."""
