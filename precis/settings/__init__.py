"""Settings of the trainers and of the machine, beside those of the flows (`precis.config`)."""
