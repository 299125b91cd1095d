"""What an investigation leaves behind: the report that colleagues read and re-check."""
