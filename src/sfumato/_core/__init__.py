"""Shared basics: arrays, exact numbers, random draws, digests, object stores."""
