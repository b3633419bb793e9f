"""The search for the settings that train best: one run for each and each seed, with intervals.

config   what is tried, with which seeds
trials   its runs, by names that stay the same
ranking  the settings, best first, and what is chance between them
report   the ranking as a page
"""
