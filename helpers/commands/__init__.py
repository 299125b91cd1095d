"""The command `workbook`, one module a room: thin functions over the same calls that notebooks make."""
