"""What mechanisms share that keep a record by a coin, or redraw it within its cell."""
