"""Types: unification, type relations, and the builder that infers while it emits."""
