"""What the paper measures with its settings: tables and figures, their numbers and claims."""
