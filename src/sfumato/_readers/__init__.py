"""Reads tables: files, databases, frames and streams, each as batches of Arrow."""
