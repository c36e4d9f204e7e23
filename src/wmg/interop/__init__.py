"""Ways in and out: the authors' models and settings, other people's environments."""
