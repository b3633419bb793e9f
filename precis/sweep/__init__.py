"""Which settings train best: one run for each of them and each seed, compared with intervals.

config   what is tried, with which seeds
trials   the runs that this comes to, by names that stay the same
ranking  the settings, best first, and what is chance between them
report   the ranking as a page
"""
