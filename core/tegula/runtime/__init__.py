"""Running kernels: binding and specialising arguments, compiling on first use, launching, caching."""
