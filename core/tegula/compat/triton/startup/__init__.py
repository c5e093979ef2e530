"""The folder that a process gets into its PYTHONPATH to have the alias from its start."""
