"""Runs the experiment from the command line."""

from tfp_refine.experiments import four_modes
from tfp_refine.experiments.harness import program

if __name__ == "__main__":
    program.main(four_modes)
