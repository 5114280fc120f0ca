"""A module that, like TensorFlow, writes to standard error when imported."""

import os

os.write(2, b"noise\n")
