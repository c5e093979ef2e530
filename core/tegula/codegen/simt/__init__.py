"""Code for machines of many threads: tile values spread over registers, lanes and warps."""
