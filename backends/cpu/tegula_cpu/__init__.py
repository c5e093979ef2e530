"""The CPU backend of Tegula."""
