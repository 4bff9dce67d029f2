"""Passes, one per file: functions from module to module."""
