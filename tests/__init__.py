"""Tests of `tfp_refine`, laid out like the library."""
