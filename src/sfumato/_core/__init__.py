"""What every other part may use: arrays, exact numbers, random draws, digests, object stores."""
