"""Measurements of fitted systems."""
