"""Settings, records, tables and pages of all experiments."""
