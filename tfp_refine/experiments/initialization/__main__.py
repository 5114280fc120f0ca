"""Runs the experiment from the command line."""

from tfp_refine.experiments import initialization
from tfp_refine.experiments import listing
from tfp_refine.experiments.harness import program

if __name__ == "__main__":
    program.main(initialization, listing.listed)
