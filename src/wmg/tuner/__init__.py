"""Distributed Grid Descent: the paper's search for hyperparameters, by any number of workers."""
