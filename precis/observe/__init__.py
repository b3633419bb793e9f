"""Observers: they are told what happens, and whatever happens to them, the run goes on."""
