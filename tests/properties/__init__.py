"""Properties that hold for whatever arguments, tried on drawn ones."""
