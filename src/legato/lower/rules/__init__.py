"""Schedule rules: loop nests for one tensor each, chosen by loop structure and never by operator."""
