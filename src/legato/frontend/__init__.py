"""Models of other systems, as modules: one package per format."""
