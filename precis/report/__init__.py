"""The results of a run, in numbers, pictures and pages."""

import logging

# matplotlib tells the terminal about its font cache and temporary folders as it is imported;
# neither is news to somebody who reads a progress bar.
logging.getLogger("matplotlib").setLevel(logging.ERROR)
