"""Choose a plan and predict its error, from a histogram alone."""
