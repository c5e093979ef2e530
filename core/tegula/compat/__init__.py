"""Names of other projects under which Tegula can be used."""
