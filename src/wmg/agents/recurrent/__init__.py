"""What the GRU and the LSTM agent have in common. It is no agent by itself."""
