"""A gated Transformer-XL: a Transformer over past activations."""
