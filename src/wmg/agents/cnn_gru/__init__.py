"""The settings of the GRU baseline with a convolutional network."""
