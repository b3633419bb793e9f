"""The search for the settings that train best: one run for each and each seed, with intervals.

trials   the settings to try, and its runs, by names that stay the same
ranking  the settings, best first, with intervals over the seeds
report   the ranking as a page
"""
