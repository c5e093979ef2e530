"""Running kernels: arguments are bound and specialised, code is compiled, cached and launched."""
