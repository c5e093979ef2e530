"""Lowering of tile IR to vectorised loop nests (processors without a grid of lanes)."""
