"""Reports of a run's results: numbers, pictures and pages."""

import logging

# On import matplotlib logs its font cache and temporary folders, which would disturb a progress
# bar.
logging.getLogger("matplotlib").setLevel(logging.ERROR)
