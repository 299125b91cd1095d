"""Acceptance: one meaning of the counters, intervals for every rate, and the load that measures them."""
