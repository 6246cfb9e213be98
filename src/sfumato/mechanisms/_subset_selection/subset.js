// Counts records that publish sets of one size, as `subset` does.

const estimator = setEstimator;
