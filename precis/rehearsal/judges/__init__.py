"""Local stand-ins for hosted services: what a rehearsal talks to instead."""
