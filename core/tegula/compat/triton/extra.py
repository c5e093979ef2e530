"""`triton.language.extra`: its modules only."""
