"""Algorithm rules: stages that compute the same tensor in another way (te → te), chosen by structure and cost."""
