"""Playing episodes without learning."""
