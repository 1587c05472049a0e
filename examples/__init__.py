"""Examples: each a command of its own, and importable by tests and notebooks."""
