"""Fu, Wang, Wong, Wang, Jiang: "Small sum privacy and large sum utility in data publishing" (SPLU-Gen), 2014."""
