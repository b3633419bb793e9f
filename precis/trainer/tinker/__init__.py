"""A trainer behind the Tinker API: the service trains and samples, and nothing of it runs here."""
