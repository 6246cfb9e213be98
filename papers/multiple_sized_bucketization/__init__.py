"""Wang: "Multiple-sized bucketization for privacy protection", thesis, 2014."""
