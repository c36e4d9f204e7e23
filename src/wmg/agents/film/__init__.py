"""BabyAI's own baseline agent: FiLM on the image, a GRU on the mission's words, an LSTM."""
