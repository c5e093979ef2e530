"""The rules of canonicalisation, by topic.  `passes.canonicalize` assembles the table."""
