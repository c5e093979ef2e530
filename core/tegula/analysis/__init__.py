"""Pure questions about a function: what is known of its values, and what its ops may touch."""
