"""`triton.tools`: its modules only."""
