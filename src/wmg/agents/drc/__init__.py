"""Deep Repeated ConvLSTM: DeepMind's agent for Sokoban."""
