"""Child processes: starting, watching and reliably ending them."""
