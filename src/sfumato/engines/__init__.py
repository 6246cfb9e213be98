"""Where the passes over a table run. An engine knows no mechanism."""
