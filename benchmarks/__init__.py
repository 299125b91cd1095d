"""Speed as ratios: ours against a named peer in the same run (`make bench`)."""
