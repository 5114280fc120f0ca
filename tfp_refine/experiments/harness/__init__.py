"""What the experiments share: settings, records, tables and pages."""
