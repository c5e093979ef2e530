"""From tile IR to code, for several kinds of machine."""
