"""Scripts for people who work on Legato; nothing here is part of the package."""
