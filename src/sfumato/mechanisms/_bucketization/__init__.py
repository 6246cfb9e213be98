"""Mechanisms that publish buckets: multiple-sized bucketization and Anatomy."""
