"""What `relay.build` gives, and what it is made of; `relay.backend` and `legato.contrib` have the names."""
