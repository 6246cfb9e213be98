"""What a release or a table gives away: attackers, privacy models, and lint."""
