"""Which settings train best: one run for each of them and each seed, compared with intervals.

config   what is tried, with which seeds and which budget
trials   the runs that this comes to, by names that stay the same
budget   what each of them may spend
ranking  the settings, best first, and what is chance between them
report   the ranking as a page
"""
